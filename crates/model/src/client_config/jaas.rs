//! `sasl.jaas.config`: one entry of a JAAS configuration, as Java's clients take it.
//!
//! ```text
//! LoginModuleClass controlFlag option="value" option=value … ;
//! ```
//!
//! Values stand in double quotes, single quotes or none. Within quotes every character belongs to the value, `=` and `;`
//! too; a backslash takes the next character as it is, but for `\n`, `\r`, `\t`, `\b` and `\f`, as `java.io.StreamTokenizer`
//! reads them. Comments are `//` to the end of the line and `/* … */`.

/// One entry.
#[derive(Clone, PartialEq, Eq)]
pub struct JaasEntry {
    /// The login module's class.
    pub module: String,
    /// Its options in the order of the text.
    pub options: Vec<(String, String)>,
}

impl std::fmt::Debug for JaasEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.options.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("JaasEntry")
            .field("module", &self.module)
            .field("options", &names)
            .finish()
    }
}

impl JaasEntry {
    /// The last part of the module's class name, such as `ScramLoginModule`.
    pub fn module_name(&self) -> &str {
        self.module.rsplit('.').next().unwrap_or(&self.module)
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(option, _)| option == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the text.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without any of its values.
    pub fn parse(text: &str) -> Result<JaasEntry, String> {
        let mut words = Words::of(text)?;
        let module = match words.next() {
            Some(Word::Text(module)) => module,
            _ => {
                return Err(
                    "it is empty; write a login module, required, its options and a semicolon".to_owned(),
                );
            }
        };
        match words.next() {
            Some(Word::Text(flag))
                if ["required", "requisite", "sufficient", "optional"]
                    .iter()
                    .any(|known| flag.eq_ignore_ascii_case(known)) => {}
            _ => {
                return Err(format!(
                    "a control flag is to follow {module}: required, as in {module} required …;"
                ));
            }
        }
        let mut options = Vec::new();
        loop {
            match words.next() {
                Some(Word::End) => break,
                Some(Word::Text(name)) => match (words.next(), words.next()) {
                    (Some(Word::Equals), Some(Word::Text(value))) => options.push((name, value)),
                    _ => return Err(format!("option {name} has no value; write {name}=\"…\"")),
                },
                Some(Word::Equals) => {
                    return Err("an equals sign stands where an option's name is to be".to_owned());
                }
                None => return Err("it does not end in a semicolon".to_owned()),
            }
        }
        match words.next() {
            None => Ok(JaasEntry { module, options }),
            Some(_) => Err("something follows the semicolon; a client takes one login module".to_owned()),
        }
    }
}

enum Word {
    Text(String),
    Equals,
    End,
}

struct Words(std::vec::IntoIter<Word>);

impl Words {
    fn next(&mut self) -> Option<Word> {
        self.0.next()
    }

    fn of(text: &str) -> Result<Words, String> {
        let mut words = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                c if c.is_whitespace() => {}
                '=' => words.push(Word::Equals),
                ';' => words.push(Word::End),
                '"' | '\'' => words.push(Word::Text(quoted(c, &mut chars)?)),
                '/' if chars.peek() == Some(&'/') => {
                    let _ = chars.by_ref().find(|&c| c == '\n');
                }
                '/' if chars.peek() == Some(&'*') => {
                    chars.next();
                    let mut last = ' ';
                    let closed = chars
                        .by_ref()
                        .any(|c| std::mem::replace(&mut last, c) == '*' && c == '/');
                    if !closed {
                        return Err("a comment does not end".to_owned());
                    }
                }
                c => {
                    let mut word = String::from(c);
                    while let Some(&c) = chars.peek()
                        && !c.is_whitespace()
                        && !matches!(c, '=' | ';' | '"' | '\'')
                    {
                        word.push(c);
                        chars.next();
                    }
                    words.push(Word::Text(word));
                }
            }
        }
        Ok(Words(words.into_iter()))
    }
}

fn quoted(quote: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
    let mut value = String::new();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok(value),
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some('f') => value.push('\u{c}'),
                Some(other) => value.push(other),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("a quote is opened and not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_with_signs_of_the_format_are_kept_whole() {
        let text = r#"org.apache.kafka.common.security.scram.ScramLoginModule required
            username="al=ice;" password='pa"ss=;\'word' tokenauth=true plain = "a\\b\"c";"#;
        let entry = JaasEntry::parse(text).unwrap();
        assert_eq!(entry.module_name(), "ScramLoginModule");
        assert_eq!(entry.option("username"), Some("al=ice;"));
        assert_eq!(entry.option("password"), Some("pa\"ss=;'word"));
        assert_eq!(entry.option("tokenauth"), Some("true"));
        assert_eq!(entry.option("plain"), Some("a\\b\"c"));
        assert_eq!(entry.option("other"), None);
        assert!(!format!("{entry:?}").contains("al=ice"), "values are never shown");
    }

    #[test]
    fn comments_are_passed_over() {
        let entry = JaasEntry::parse("a.B /* c = d; **/ required // e\n x=y;").unwrap();
        assert_eq!(entry.options, [("x".to_owned(), "y".to_owned())]);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_values() {
        for (text, expected) in [
            ("", "it is empty"),
            ("a.B", "a control flag is to follow a.B"),
            ("a.B username=u;", "a control flag is to follow a.B"),
            ("a.B required username=\"geheim\"", "does not end in a semicolon"),
            ("a.B required password;", "option password has no value"),
            ("a.B required password=;", "option password has no value"),
            ("a.B required ='geheim';", "an equals sign"),
            ("a.B required password=\"geheim;", "not closed"),
            ("a.B required x=geheim; c.D required;", "follows the semicolon"),
            ("a.B required /* x=geheim;", "a comment does not end"),
        ] {
            let problem = JaasEntry::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains("geheim"), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back_from_its_quotes(value in "\\PC*") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let entry = JaasEntry::parse(&format!("a.B required v=\"{escaped}\";")).unwrap();
            prop_assert_eq!(entry.option("v"), Some(value.as_str()));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = JaasEntry::parse(&text);
        }
    }
}
