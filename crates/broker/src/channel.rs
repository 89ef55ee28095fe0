//! The bytes of one connection: plain, or within TLS (rustls with ring).
//!
//! Plain bytes are read straight to where they stay. Those of TLS are decrypted by rustls and copied once. What a peer sends
//! before its handshake is complete is bounded by rustls: it keeps one message, of 64 KiB at most.

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

/// Plain bytes that may wait, encrypted, for the socket.
const MOST_UNSENT_BYTES: usize = 256 << 10;
/// What is read and thrown away of a peer that does not speak TLS, so that the alert reaches it: a socket that is closed with
/// unread bytes resets the connection.
const MOST_WASTE_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) enum Channel {
    Plain(TcpStream),
    Tls(Box<TlsChannel>),
}

impl Channel {
    /// A connection that was just accepted.
    ///
    /// # Errors
    /// If rustls refuses its settings.
    pub(crate) fn new(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Channel> {
        let Some(config) = tls else {
            return Ok(Channel::Plain(stream));
        };
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(MOST_UNSENT_BYTES));
        Ok(Channel::Tls(Box::new(TlsChannel { stream, session })))
    }

    /// Reads what is there; 0 is the end. With TLS, handshakes go on by this.
    ///
    /// # Errors
    /// Those of the socket, `WouldBlock` among them, and what is not TLS.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(into),
            Channel::Tls(tls) => tls.read(into),
        }
    }

    /// Gives the socket what waits for it; true if nothing is left.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Channel::Plain(_) => Ok(true),
            Channel::Tls(tls) => tls.send(),
        }
    }

    /// Whether bytes wait, encrypted, for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Channel::Plain(_) => false,
            Channel::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// Whether the client has closed its side and sent nothing that is still to be read.
    pub(crate) fn has_ended(&mut self) -> bool {
        match self {
            Channel::Plain(stream) => matches!(stream.peek(&mut [0]), Ok(0)),
            Channel::Tls(tls) => tls.has_ended(),
        }
    }

    /// Tells the client that nothing more comes, as far as the protocol has a word for it.
    pub(crate) fn say_goodbye(&mut self) {
        if let Channel::Tls(tls) = self {
            tls.session.send_close_notify();
            // A client that is gone need not hear it.
            tls.send().map(drop).unwrap_or_default();
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(bytes),
            Channel::Tls(tls) => tls.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write_vectored(slices),
            Channel::Tls(tls) => tls.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Channel::flush(self).map(drop)
    }
}

/// Reads of the socket, 4 KiB each, that may go by without a byte for the broker: a handshake, or a record in parts, takes a few.
const MOST_EMPTY_READS: usize = 256;

/// A socket and the TLS that is spoken over it.
#[derive(Debug)]
pub(crate) struct TlsChannel {
    stream: TcpStream,
    session: ServerConnection,
}

impl TlsChannel {
    /// Fills `into` as far as there is something.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        let mut empty = 0;
        while filled < into.len() {
            match self.session.reader().read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    empty = 0;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Ended without the notice that TLS asks for, as many clients do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            // Whoever sends records without content keeps this thread from all others.
            empty += 1;
            if empty > MOST_EMPTY_READS {
                return Err(io::Error::other("TLS records without content"));
            }
            match self.receive() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.send()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.session.writer().write_vectored(slices)?;
        self.send()?;
        Ok(count)
    }

    /// Gives the socket what waits for it; false while some is left.
    fn send(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes what the socket has, once, and answers it as TLS asks for; true if that was its end.
    fn receive(&mut self) -> io::Result<bool> {
        let count = loop {
            match self.session.read_tls(&mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if let Err(error) = self.session.process_new_packets() {
            self.turn_away();
            return Err(io::Error::other(error));
        }
        self.send()?;
        Ok(count == 0)
    }

    /// Sends the alert that says why the connection is going to be closed. That is worth an attempt, and no more.
    fn turn_away(&mut self) {
        self.send().map(drop).unwrap_or_default();
        self.stream.shutdown(Shutdown::Write).unwrap_or_default();
        let mut waste = [0; 4096];
        let mut wasted = 0;
        while let Ok(count @ 1..) = self.stream.read(&mut waste)
            && wasted < MOST_WASTE_BYTES
        {
            wasted += count;
        }
    }

    fn has_ended(&mut self) -> bool {
        for _ in 0..MOST_EMPTY_READS {
            match self.session.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => return false,
                Ok(state) if state.peer_has_closed() => return true,
                Ok(_) => {}
                Err(_) => return true,
            }
            match self.receive() {
                Ok(is_over) if is_over => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
