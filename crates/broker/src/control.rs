//! The control call: brokers are stopped, paused and started, and scripts changed, while clients work.
//!
//! A connection of its own, line by line. `stop 2`, `start 2`, `pause 2`, `resume 2`, `status`, `script clear`, `log flush`; `script
//! LENGTH`, followed by so many bytes of a script. Each is answered by one line, `ok …` or `error: …`; `status` by several, the last
//! of which is `ok`.

use crate::handle::{Control, known_names};
use model::broker_script::BrokerScript;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A longer script is a mistake.
const MOST_SCRIPT_BYTES: u64 = 1 << 20;
const MOST_LINE_BYTES: u64 = 256;
/// Who says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// More callers at once than this are let go unheard.
const MOST_CALLERS: usize = 32;

/// Listens for control calls, in a thread that ends with the process.
///
/// # Errors
/// When the address is taken, or the system grants no thread.
pub(crate) fn listen(address: SocketAddr, control: Control) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let spawn = |act: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(act)
            .map(drop)
    };
    let callers = Arc::new(());
    spawn(Box::new(move || {
        // A thread each: one who says nothing keeps nobody else waiting.
        for stream in listener.incoming().flatten() {
            if Arc::strong_count(&callers) > MOST_CALLERS {
                continue;
            }
            let (control, caller) = (control.clone(), Arc::clone(&callers));
            // Without a thread the call is let go like one too many.
            spawn(Box::new(move || {
                serve(stream, &control).unwrap_or_default();
                drop(caller);
            }))
            .unwrap_or_default();
        }
    }))?;
    Ok(address)
}

fn serve(stream: TcpStream, control: &Control) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if input.by_ref().take(MOST_LINE_BYTES).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["script", length] if *length != "clear" => match length.parse::<u64>() {
                Ok(length) if length <= MOST_SCRIPT_BYTES => {
                    let mut text = vec![0; length as usize];
                    input.read_exact(&mut text)?;
                    follow(control, &String::from_utf8_lossy(&text))
                }
                _ => Err(format!("a script has from 0 to {MOST_SCRIPT_BYTES} bytes")),
            },
            words => obey(control, words),
        };
        let text = match answer {
            Ok(text) => format!("{text}ok\n"),
            Err(problem) => format!("error: {}\n", problem.replace('\n', "; ")),
        };
        output.write_all(text.as_bytes())?;
    }
}

fn follow(control: &Control, text: &str) -> Result<String, String> {
    let (apis, errors) = known_names();
    let script = BrokerScript::parse("script", text, &apis, &errors).map_err(|faults| faults.to_string())?;
    let followed = control.follow(Some(&script)).map(|()| String::new());
    followed.map_err(|error| format!("{error}, which the script names"))
}

fn obey(control: &Control, words: &[&str]) -> Result<String, String> {
    let broker = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| format!("{text} is not a broker's id"))
    };
    let told = |error: &dyn std::error::Error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    match words {
        ["stop" | "kill", id] => control.stop_broker(broker(id)?).map_err(|error| told(&error))?,
        ["start", id] => control.start_broker(broker(id)?).map_err(|error| told(&error))?,
        ["pause", id] => control.pause_broker(broker(id)?).map_err(|error| told(&error))?,
        ["resume", id] => control.resume_broker(broker(id)?).map_err(|error| told(&error))?,
        ["script", "clear"] => control.follow(None).map_err(|error| told(&error))?,
        ["log", "flush"] => control.flush_log(),
        ["status"] => return Ok(control.status()),
        _ => {
            return Err(
                "known are: stop ID, kill ID, start ID, pause ID, resume ID, script LENGTH, script clear, log flush, status"
                    .to_owned(),
            );
        }
    }
    Ok(String::new())
}
