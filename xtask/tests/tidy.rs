//! House rules that no compiler knows. Each test reads the sources as they stand, and its failure names file and line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root. Tests run in their package's directory; where that was when they were compiled may be another clone's.
fn root() -> &'static Path {
    Path::new("..")
}

/// A failure that lists all that breaks a rule.
#[track_caller]
fn assert_none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

mod edges {
    use super::*;

    /// Crate → the crates that it may use, out of ARCHITECTURE.md's table under "Allowed edges".
    fn allowed() -> BTreeMap<String, BTreeSet<String>> {
        let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
        let (_, section) = text
            .split_once("### Allowed edges")
            .expect("a section Allowed edges");
        let section = section.split("\n#").next().unwrap_or_default();
        let names = |cell: &str| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        rows.filter_map(|row| {
            let mut cells = row.trim_matches('|').split('|');
            let name = names(cells.next()?).pop()?;
            Some((name, names(cells.next()?).into_iter().collect()))
        })
        .collect()
    }

    struct Package {
        name: String,
        directory: PathBuf,
        uses: BTreeSet<String>,
    }

    fn packages() -> Vec<Package> {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root())
            .output()
            .expect("cargo metadata runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
        let packages = metadata["packages"].as_array().expect("packages").iter();
        packages
            .map(|package| {
                let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
                // Ours are those with a path; a test may use what it likes.
                let ours = dependencies.filter(|d| d["path"].is_string() && d["kind"] != "dev");
                let manifest = Path::new(package["manifest_path"].as_str().expect("a manifest"));
                Package {
                    name: package["name"].as_str().expect("a name").to_owned(),
                    directory: manifest.parent().expect("a directory").to_owned(),
                    uses: ours
                        .map(|d| d["name"].as_str().expect("a name").to_owned())
                        .collect(),
                }
            })
            .collect()
    }

    #[test]
    fn no_crate_uses_one_that_architecture_md_does_not_allow_it() {
        let allowed = allowed();
        let mut broken = Vec::new();
        for package in packages() {
            let Some(may_use) = allowed.get(&package.name) else {
                broken.push(format!("{} is not in the table", package.name));
                continue;
            };
            let forbidden = package.uses.difference(may_use);
            broken.extend(forbidden.map(|used| format!("{} uses {used}", package.name)));
        }
        assert_none(&broken, "edges against ARCHITECTURE.md");
    }

    #[test]
    fn the_table_names_the_crates_that_there_are_and_no_others() {
        let named: BTreeSet<String> = allowed().into_keys().collect();
        let there: BTreeSet<String> = packages().into_iter().map(|package| package.name).collect();
        assert_eq!(named, there);
    }

    #[test]
    fn no_two_crates_may_use_each_other_even_by_a_detour() {
        fn reaches(allowed: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
            allowed[from]
                .iter()
                .any(|next| next == to || reaches(allowed, next, to))
        }
        let allowed = allowed();
        // Crates are taken away as long as one is left that uses none of the rest; a cycle cannot be taken away.
        let mut rest: BTreeSet<&String> = allowed.keys().collect();
        while let Some(&leaf) = rest
            .iter()
            .find(|name| allowed[**name].iter().all(|used| !rest.contains(used)))
        {
            rest.remove(leaf);
        }
        assert!(rest.is_empty(), "a cycle in the table among {rest:?}");
        assert!(
            reaches(&allowed, "cli", "model"),
            "the table was not read: cli is above model"
        );
    }

    #[test]
    fn a_directory_is_named_like_its_crate_and_takes_the_workspaces_lints() {
        let mut broken = Vec::new();
        for package in packages() {
            if package.directory.file_name() != Some(package.name.as_ref()) {
                broken.push(format!(
                    "{} stands in {}",
                    package.name,
                    package.directory.display()
                ));
            }
            let manifest = fs::read_to_string(package.directory.join("Cargo.toml")).expect("a manifest");
            if !manifest.contains("[lints]\nworkspace = true") {
                broken.push(format!("{} does not take the workspace's lints", package.name));
            }
        }
        assert_none(&broken, "crates");
    }
}

mod sources {
    use super::*;

    /// One Rust file.
    struct Source {
        /// Relative to the root.
        path: PathBuf,
        text: String,
        /// The text with comments, strings and characters blanked, its lines kept.
        code: String,
        /// Whether it is compiled for tests, benchmarks or examples alone.
        is_test: bool,
    }

    impl Source {
        /// The code that is in the shipped crate: that of `#[cfg(test)]` modules blanked too.
        fn shipped_code(&self) -> String {
            if self.is_test {
                String::new()
            } else {
                without_test_modules(&self.code)
            }
        }

        fn crate_name(&self) -> &str {
            let mut parts = self.path.iter().filter_map(|part| part.to_str());
            match parts.next() {
                Some("crates") => parts.next().unwrap_or_default(),
                first => first.unwrap_or_default(),
            }
        }
    }

    fn sources() -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        for path in files()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        {
            let text = fs::read_to_string(root().join(&path)).expect("Rust sources are UTF-8");
            let mut parts = path.iter().filter_map(|part| part.to_str());
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests")
                || parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"));
            let code = blank(&text);
            sources.push(Source {
                path,
                text,
                code,
                is_test,
            });
        }
        assert!(
            sources.len() > 20,
            "the walk has found {} Rust files",
            sources.len()
        );
        let of_tests: BTreeSet<PathBuf> = sources.iter().flat_map(test_module_files).collect();
        for source in &mut sources {
            source.is_test |= of_tests.contains(&source.path);
        }
        sources
    }

    /// The files of modules that are declared as `#[cfg(test)] mod name;`.
    fn test_module_files(source: &Source) -> Vec<PathBuf> {
        let directory = match source.path.file_stem().and_then(|stem| stem.to_str()) {
            Some("mod" | "lib" | "main") => source.path.parent().unwrap_or(Path::new("")).to_owned(),
            _ => source.path.with_extension(""),
        };
        let declarations = source.code.split("#[cfg(test)]").skip(1).filter_map(|after| {
            let name = after
                .trim_start()
                .strip_prefix("mod ")?
                .split([';', '{'])
                .next()?;
            after.trim_start()["mod ".len() + name.len()..]
                .starts_with(';')
                .then_some(name)
        });
        declarations
            .flat_map(|name| {
                [
                    directory.join(format!("{name}.rs")),
                    directory.join(name).join("mod.rs"),
                ]
            })
            .collect()
    }

    /// `path:line: what` for each place in `code` where `word` stands and is not a part of a longer name.
    fn places(source: &Source, code: &str, word: &str) -> Vec<String> {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let stands_alone = |at: usize| {
            let end = at + word.len();
            let starts_in_name = word.starts_with(is_name) && code[..at].ends_with(is_name);
            let ends_in_name = word.ends_with(is_name) && code[end..].starts_with(is_name);
            !starts_in_name && !ends_in_name
        };
        code.match_indices(word)
            .filter(|(at, _)| stands_alone(*at))
            .map(|(at, _)| {
                let line = 1 + code[..at].bytes().filter(|byte| *byte == b'\n').count();
                format!("{}:{line}: {word}", source.path.display())
            })
            .collect()
    }

    #[test]
    fn there_is_no_unsafe_code() {
        let broken: Vec<_> = sources()
            .iter()
            .flat_map(|source| places(source, &source.code, "unsafe"))
            .collect();
        assert_none(&broken, "unsafe is forbidden");
    }

    #[test]
    fn nothing_is_left_for_later_and_nothing_is_kept_dead() {
        const WORDS: [&str; 6] = [
            "todo!",
            "unimplemented!",
            "#[ignore",
            "allow(dead_code",
            "expect(dead_code",
            "allow(unused",
        ];
        let sources = sources();
        let found = |source| {
            WORDS
                .iter()
                .flat_map(move |word| places(source, &source.code, word))
        };
        let broken: Vec<_> = sources.iter().flat_map(found).collect();
        assert_none(&broken, "code that waits, is skipped, or that nothing uses");
    }

    #[test]
    fn only_cli_and_the_chores_print_read_the_environment_or_exit() {
        const WORDS: [&str; 11] = [
            "println!",
            "print!",
            "eprintln!",
            "eprint!",
            "dbg!",
            "process::exit",
            "process::abort",
            "env::var",
            "env::var_os",
            "env::args",
            "env::vars",
        ];
        let sources = sources();
        let below_cli = sources
            .iter()
            .filter(|source| !matches!(source.crate_name(), "cli" | "xtask"));
        let broken: Vec<_> = below_cli
            .flat_map(|source| {
                let code = source.shipped_code();
                WORDS
                    .iter()
                    .flat_map(move |word| places(source, &code, word))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_none(&broken, "only cli and xtask print, read the environment, or exit");
    }

    #[test]
    fn wire_measure_model_and_report_know_no_sockets_clocks_or_files() {
        const WORDS: [&str; 8] = [
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "Instant::now",
            "SystemTime::now",
            "std::fs",
            "std::thread",
            "mio::",
        ];
        let sources = sources();
        let pure = sources
            .iter()
            .filter(|s| matches!(s.crate_name(), "wire" | "measure" | "model" | "report"));
        let broken: Vec<_> = pure
            .flat_map(|source| {
                let code = source.shipped_code();
                WORDS
                    .iter()
                    .flat_map(move |word| places(source, &code, word))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_none(&broken, "pure crates are handed time and bytes");
    }

    #[test]
    fn files_are_named_for_what_they_are_about() {
        const VAGUE: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];
        let is_vague = |path: &PathBuf| {
            path.iter()
                .any(|part| VAGUE.contains(&part.to_string_lossy().split('.').next().unwrap_or_default()))
        };
        let broken: Vec<_> = files()
            .into_iter()
            .filter(is_vague)
            .map(|path| path.display().to_string())
            .collect();
        assert_none(&broken, "names that say nothing");
    }

    #[test]
    fn every_api_of_the_broker_says_on_top_which_versions_it_serves_and_what_is_left_out() {
        let sources = sources();
        let apis: Vec<_> = sources
            .iter()
            .filter(|s| {
                s.path.starts_with("crates/broker/src/api")
                    && s.path.file_name().is_some_and(|n| n != "mod.rs")
            })
            .collect();
        assert!(!apis.is_empty(), "crates/broker/src/api holds a file per API");
        let broken: Vec<_> = apis
            .iter()
            .filter_map(|source| Some(format!("{}: {}", source.path.display(), lacks(source)?)))
            .collect();
        assert_none(&broken, "opening comments of API files");
    }

    /// What the opening comment of an API's file lacks of `//! Name (key), versions 3 to 9 …` and what is left out.
    fn lacks(source: &Source) -> Option<&'static str> {
        let head: Vec<&str> = source
            .text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(str::trim)
            .collect();
        let head = head.join(" ");
        let file_name = source.path.file_stem()?.to_string_lossy().replace('_', "");
        let (name, rest) = head.split_once(" (").unwrap_or((&head, ""));
        let key_and_versions = rest
            .split_once("), version")
            .map(|(key, versions)| (key.parse::<u16>(), versions));
        if !name.eq_ignore_ascii_case(&file_name) {
            Some("does not begin with the API's name")
        } else if !key_and_versions
            .is_some_and(|(key, versions)| key.is_ok() && versions.contains(char::is_numeric))
        {
            Some("gives no API key and versions")
        } else if !head.to_lowercase().contains("left out") {
            Some("does not say what is left out")
        } else {
            None
        }
    }

    #[test]
    fn the_opening_comment_of_an_api_is_read_across_its_lines() {
        let lacks_of = |text: &str| {
            let path = PathBuf::from("api/list_groups.rs");
            lacks(&Source {
                path,
                text: text.to_owned(),
                code: String::new(),
                is_test: false,
            })
        };
        assert_eq!(
            lacks_of("//! ListGroups (16), versions 0 to 5: those of this broker. Nothing left\n//! out.\n"),
            None
        );
        assert_eq!(
            lacks_of("//! ListGroups (16), versions 0 to 5.\n"),
            Some("does not say what is left out")
        );
        assert_eq!(
            lacks_of("//! ListGroups: Left out: all\n"),
            Some("does not begin with the API's name")
        );
        assert_eq!(
            lacks_of("//! ListGroups (16). Left out: all\n"),
            Some("gives no API key and versions")
        );
        assert_eq!(lacks_of("use x;\n"), Some("does not begin with the API's name"));
    }

    /// The text with everything blanked that is not code: comments, strings, byte strings, raw strings, characters. Lines
    /// and byte positions stay as they are.
    pub fn blank(text: &str) -> String {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = if rest.starts_with(b"//") {
                rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                block_comment(rest)
            } else if let Some(length) = raw_string(rest).filter(|_| !follows_name(bytes, at)) {
                length
            } else if rest[0] == b'"' {
                quoted(rest)
            } else if rest[0] == b'\'' {
                character(rest).unwrap_or(0)
            } else {
                0
            };
            for byte in code[at..at + length].iter_mut().filter(|byte| **byte != b'\n') {
                *byte = b' ';
            }
            at += length.max(1);
        }
        // Only whole characters are blanked, or none of a character: what is left is UTF-8.
        String::from_utf8(code).expect("blanking keeps characters whole")
    }

    fn follows_name(bytes: &[u8], at: usize) -> bool {
        at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
    }

    /// Length of a comment that may hold others.
    fn block_comment(rest: &[u8]) -> usize {
        let (mut depth, mut at) = (0, 0);
        while at < rest.len() {
            if rest[at..].starts_with(b"/*") {
                (depth, at) = (depth + 1, at + 2);
            } else if rest[at..].starts_with(b"*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        rest.len()
    }

    /// Length of `r"…"`, `r#"…"#`, `br"…"`, `cr"…"`; `None` if it is none of them.
    fn raw_string(rest: &[u8]) -> Option<usize> {
        let prefix = if rest.starts_with(b"br") || rest.starts_with(b"cr") {
            2
        } else {
            1
        };
        if rest.get(prefix - 1) != Some(&b'r') {
            return None;
        }
        let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
        if rest.get(prefix + hashes) != Some(&b'"') {
            return None;
        }
        let mut end = vec![b'"'];
        end.resize(1 + hashes, b'#');
        let body = prefix + hashes + 1;
        let found = rest[body..].windows(end.len()).position(|window| window == end);
        Some(found.map_or(rest.len(), |position| body + position + end.len()))
    }

    /// Length of `"…"`.
    fn quoted(rest: &[u8]) -> usize {
        let mut at = 1;
        while at < rest.len() {
            match rest[at] {
                b'\\' => at += 2,
                b'"' => return at + 1,
                _ => at += 1,
            }
        }
        rest.len()
    }

    /// Length of `'x'`, `'\n'`, `'\u{1f600}'`; `None` for a lifetime.
    fn character(rest: &[u8]) -> Option<usize> {
        if rest.get(1) == Some(&b'\\') {
            // The escaped character may itself be a quote.
            return Some(3 + rest.get(3..)?.iter().position(|byte| *byte == b'\'')? + 1);
        }
        let text = std::str::from_utf8(rest).unwrap_or_default();
        let mut characters = text.char_indices().skip(2);
        let (at, third) = characters.next()?;
        (third == '\'').then_some(at + 1)
    }

    /// Code with the bodies of `#[cfg(test)]` items blanked: up to the brace that closes them, or the semicolon.
    pub fn without_test_modules(code: &str) -> String {
        const MARK: &str = "#[cfg(test)]";
        let mut shipped = String::with_capacity(code.len());
        let mut rest = code;
        while let Some(start) = rest.find(MARK) {
            shipped.push_str(&rest[..start]);
            let end = item_end(&rest[start + MARK.len()..]) + start + MARK.len();
            shipped.extend(
                rest[start..end]
                    .chars()
                    .map(|c| if c == '\n' { '\n' } else { ' ' }),
            );
            rest = &rest[end..];
        }
        shipped + rest
    }

    fn item_end(code: &str) -> usize {
        let mut depth = 0;
        for (at, c) in code.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return at + 1,
                '}' => depth -= 1,
                ';' if depth == 0 => return at + 1,
                _ => {}
            }
        }
        code.len()
    }

    #[test]
    fn what_is_no_code_is_not_read_as_code() {
        let check = |text: &str, expected: &str| {
            let code = blank(text);
            assert_eq!(code.len(), text.len());
            assert_eq!(
                code.split_whitespace().collect::<Vec<_>>().join(" "),
                expected,
                "{text}"
            );
        };
        check("a // unsafe\nb", "a b");
        check("a /* x /* y */ unsafe */ b", "a b");
        check(r#"a "unsafe \" still" b"#, "a b");
        check(r##"a r#"unsafe " still"# b"##, "a b");
        check("a br\"unsafe\\\" b", "a b");
        check("let c = '\"'; unsafe", "let c = ; unsafe");
        check("let c = '\\''; unsafe", "let c = ; unsafe");
        check("let c = '\\u{e9}'; unsafe", "let c = ; unsafe");
        check("let c = 'é'; unsafe", "let c = ; unsafe");
        check("fn f<'a>(x: &'a str) unsafe", "fn f<'a>(x: &'a str) unsafe");
        check("for_r \"x\" var\"y\"", "for_r var");
    }

    #[test]
    fn code_of_tests_is_told_from_code_that_ships() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { if x {} }\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}";
        let shipped = without_test_modules(code);
        assert_eq!(shipped.lines().count(), code.lines().count());
        assert_eq!(
            shipped.split_whitespace().collect::<Vec<_>>().join(" "),
            "fn a() {} fn c() {} fn e() {}"
        );
    }

    #[test]
    fn a_word_is_found_alone_and_with_its_line() {
        let source = Source {
            path: PathBuf::from("x.rs"),
            text: String::new(),
            code: "a\nunsafe_code unsafe\n println!() eprintln!()".to_owned(),
            is_test: false,
        };
        assert_eq!(places(&source, &source.code, "unsafe"), ["x.rs:2: unsafe"]);
        assert_eq!(places(&source, &source.code, "println!"), ["x.rs:3: println!"]);
    }
}

mod texts {
    use super::*;

    #[test]
    fn no_text_names_a_path_of_one_persons_machine() {
        // In two parts, so that this list does not find itself.
        let private = [("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/")];
        let private = private.map(|(head, tail)| format!("{head}{tail}"));
        let is_text = |path: &PathBuf| {
            let extension = path
                .extension()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            ["md", "rs", "toml", "xml", "yaml", "yml", "properties", "json"].contains(&extension.as_str())
        };
        let mut broken = Vec::new();
        for path in files().into_iter().filter(is_text) {
            let Ok(text) = fs::read_to_string(root().join(&path)) else {
                continue;
            };
            for (number, line) in (1..).zip(text.lines()) {
                let found = private.iter().filter(|path| begins_a_path(line, path));
                broken.extend(found.map(|found| format!("{}:{number}: {found}", path.display())));
            }
        }
        assert_none(&broken, "absolute paths of one machine");
    }

    /// Whether the line has it as the beginning of a path, and not in the middle of one (`src/run/`) or of a link.
    fn begins_a_path(line: &str, path: &str) -> bool {
        let in_the_middle = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '*' | '}' | '>');
        line.match_indices(path)
            .any(|(at, _)| !line[..at].ends_with(in_the_middle))
    }

    #[test]
    fn a_path_is_told_from_a_part_of_one() {
        let home = format!("/{}/", "home");
        assert!(begins_a_path(&format!("see {home}x"), &home));
        assert!(begins_a_path(&format!("`{home}x`"), &home));
        assert!(!begins_a_path(&format!("src{home}x"), &home));
    }
}

/// All files of the project, relative to its root: not those that Cargo, Git or a run made.
fn files() -> Vec<PathBuf> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !path.is_dir() {
                files.push(path);
            } else if !matches!(name.as_str(), ".git" | "target" | "plimsoll-runs")
                && !path.join("CACHEDIR.TAG").exists()
            {
                walk(&path, files);
            }
        }
    }
    let mut files = Vec::new();
    walk(root(), &mut files);
    files
        .iter()
        .map(|path| {
            path.strip_prefix(root())
                .expect("a path under the root")
                .to_owned()
        })
        .collect()
}
