//! The folder of a result: made before anything is started, filled while the run goes on, and whole at every moment.

use crate::failure::system_error;
use crate::utc::UtcSecond;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result document.
pub const RESULT_FILE: &str = "result.json";
/// The interval log.
pub const SERIES_FILE: &str = "series.hlog";
/// More runs of one name in one second are a mistake.
const MOST_NAMESAKES: u32 = 1000;

/// A file or folder of the result that could not be made or written.
#[derive(Debug, thiserror::Error)]
#[error("{} {doing}: {}", .path.display(), system_error(.source))]
pub struct FolderError {
    path: PathBuf,
    doing: &'static str,
    source: io::Error,
}

impl From<FolderError> for io::Error {
    fn from(error: FolderError) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

fn failing<'a>(path: &'a Path, doing: &'static str) -> impl FnOnce(io::Error) -> FolderError + 'a {
    move |source| FolderError {
        path: path.to_owned(),
        doing,
        source,
    }
}

/// The folder of one result.
#[derive(Debug)]
pub struct ResultFolder {
    path: PathBuf,
    series: File,
    /// Folders above it that were made for it, the innermost first.
    made_above: Vec<PathBuf>,
}

impl ResultFolder {
    /// Makes `<output>/<time>-<name>/`, which nothing else has, with an empty interval log in it.
    ///
    /// # Errors
    /// When the folder or a file in it cannot be made.
    pub fn create(
        output: &Path,
        started_since_epoch: Duration,
        name: &str,
    ) -> Result<ResultFolder, FolderError> {
        let missing_above: Vec<PathBuf> = output
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(output).map_err(failing(output, "cannot be made"))?;
        let stem = format!(
            "{}-{}",
            UtcSecond::from_epoch(started_since_epoch),
            as_file_name(name)
        );
        let mut namesake = 1;
        let path = loop {
            let path = match namesake {
                1 => output.join(&stem),
                _ => output.join(format!("{stem}-{namesake}")),
            };
            match fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && namesake < MOST_NAMESAKES => {
                    namesake += 1
                }
                Err(error) => return Err(failing(&path, "cannot be made")(error)),
            }
        };
        let series_path = path.join(SERIES_FILE);
        let series = File::create_new(&series_path).map_err(failing(&series_path, "cannot be made"))?;
        Ok(ResultFolder {
            path,
            series,
            made_above: missing_above,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds lines to the interval log.
    ///
    /// # Errors
    /// When they cannot be written, as when the disk is full.
    pub fn append_series(&mut self, lines: &str) -> Result<(), FolderError> {
        let written = self.series.write_all(lines.as_bytes());
        written.map_err(|error| failing(&self.path.join(SERIES_FILE), "cannot be written")(error))
    }

    /// Writes the result document: it is there as a whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_result(&self, document: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(RESULT_FILE);
        let unfinished = self.path.join(".result.json.unfinished");
        let written = File::create(&unfinished)
            .and_then(|mut file| file.write_all(document).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&unfinished, &path));
        written.map_err(|error| {
            // What is left of it would be taken for something; that it cannot be removed is not the news.
            fs::remove_file(&unfinished).unwrap_or_default();
            failing(&path, "cannot be written")(error)
        })
    }

    /// Removes it, for a run that came to no result, with the folders above that were made for it and hold nothing else.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(self) -> Result<(), FolderError> {
        let series = self.path.join(SERIES_FILE);
        fs::remove_file(&series).map_err(failing(&series, "cannot be removed"))?;
        fs::remove_dir(&self.path).map_err(failing(&self.path, "cannot be removed"))?;
        // A folder that another run uses meanwhile stays.
        self.made_above
            .iter()
            .take_while(|path| fs::remove_dir(path).is_ok())
            .for_each(drop);
        Ok(())
    }
}

/// A run's name as a part of a file name.
fn as_file_name(name: &str) -> String {
    const LONGEST: usize = 80;
    let legal = |c: char| {
        if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') {
            c
        } else {
            '-'
        }
    };
    let mut text = String::new();
    for c in name.chars().map(legal) {
        if text.len() + c.len_utf8() > LONGEST {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_796_097_057);

    fn scratch(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plimsoll-{test}-{}", std::process::id()))
    }

    #[test]
    fn runs_of_one_second_have_folders_of_their_own() {
        let output = scratch("namesakes");
        let first = ResultFolder::create(&output, START, "100B / zstd").unwrap();
        let second = ResultFolder::create(&output, START, "100B / zstd").unwrap();
        assert_eq!(first.path(), output.join("2026-12-01T03-50-57-100B---zstd"));
        assert_eq!(second.path(), output.join("2026-12-01T03-50-57-100B---zstd-2"));
        fs::remove_dir_all(&output).unwrap();
    }

    #[test]
    fn what_is_written_is_there_and_nothing_besides() {
        let output = scratch("written");
        let mut folder = ResultFolder::create(&output, START, "run").unwrap();
        folder.append_series("one\n").unwrap();
        folder.append_series("two\n").unwrap();
        folder.write_result(b"{}\n").unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, [RESULT_FILE, SERIES_FILE]);
        assert_eq!(
            fs::read_to_string(folder.path().join(SERIES_FILE)).unwrap(),
            "one\ntwo\n"
        );
        assert_eq!(
            fs::read_to_string(folder.path().join(RESULT_FILE)).unwrap(),
            "{}\n"
        );
        fs::remove_dir_all(&output).unwrap();
    }

    #[test]
    fn a_run_without_a_result_leaves_no_folder() {
        let output = scratch("discarded");
        let folder = ResultFolder::create(&output.join("deep"), START, "run").unwrap();
        folder.discard().unwrap();
        assert!(!output.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let output = scratch("blocked");
        fs::write(&output, "a file").unwrap();
        let error = ResultFolder::create(&output.join("runs"), START, "run").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}/runs cannot be made: Not a directory", output.display())
        );
        fs::remove_file(&output).unwrap();
    }
}
