//! The part of YAML that workload and driver files use, as a tree that keeps each node's line and each scalar's text.
//!
//! Scalars stay text, so that `producerRate: 50k` and `--set producerRate=50k` are read by the same code and a fault can
//! show what was written. A file is one document whose root is a mapping; aliases are followed, tags are not looked at.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::fault::Fault;
use crate::source::Source;

/// Deeper nesting than any file of ours has; bounds the recursion on hostile input.
const DEEPEST: usize = 16;
/// More nodes than any file of ours has, aliases followed; bounds what a file of nested aliases can grow to.
const MOST_NODES: usize = 100_000;
/// More text than the aliases of any file of ours stand for; bounds what a file with many aliases of a long text can grow to.
const MOST_ALIASED_BYTES: usize = 1 << 20;

/// A node with the line it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub line: u32,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Text; `plain` where no quotes or block style marked it as text, so that an empty or `null` one means nothing.
    /// `block` where it is a literal block, whose text begins on the line below.
    Scalar {
        text: String,
        plain: bool,
        block: bool,
    },
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub line: u32,
    pub node: Node,
}

impl Node {
    /// Whether the node is YAML's null, as `key:` with nothing behind it is.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true, .. } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// A node that holds a text as a flag gave it.
    pub(crate) fn text(text: &str, line: u32) -> Node {
        Node {
            line,
            value: Value::Scalar {
                text: text.to_owned(),
                plain: true,
                block: false,
            },
        }
    }

    /// The node on one line, for messages and the resolved values of the result; [`parse_flag_value`] reads it back.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            Value::Scalar { text, .. } => text.clone(),
            Value::Sequence(items) => {
                let items: Vec<_> = items.iter().map(Node::shown_inside).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Mapping(entries) => {
                let shown = |entry: &Entry| format!("{}: {}", quoted(&entry.key), entry.node.shown_inside());
                let entries: Vec<_> = entries.iter().map(shown).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }

    /// The node inside a list or a mapping, where a text may need quotes.
    fn shown_inside(&self) -> String {
        match &self.value {
            Value::Scalar { text, .. } => quoted(text),
            _ => self.shown(),
        }
    }
}

/// A text as a flow scalar: bare where that is safe, else in double quotes.
fn quoted(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/');
    if !text.is_empty() && text.chars().all(is_safe) {
        return text.to_owned();
    }
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => format!("\\U{:08X}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Reads a file's top-level mapping; an empty file is an empty one.
pub(crate) fn parse_mapping(path: &str, text: &str) -> Result<Vec<Entry>, Fault> {
    let at = |line: u32, problem: &str| Fault::syntax(Source::file(path, line), problem);
    match parse_document(text) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(Node {
            value: Value::Mapping(entries),
            ..
        })) => Ok(entries),
        Ok(Some(node)) if node.is_null() => Ok(Vec::new()),
        Ok(Some(node)) => Err(at(node.line, "the file must be a list of `key: value` lines")),
        Err(error) => Err(at(error.line, &error.problem)),
    }
}

/// Reads the value of `key=value` from a command line: a list or a mapping where it looks like one, else text.
pub(crate) fn parse_flag_value(text: &str) -> Result<Node, String> {
    if !text.trim_start().starts_with(['[', '{']) {
        return Ok(Node::text(text.trim(), 1));
    }
    match parse_document(text) {
        Ok(Some(node)) => Ok(node),
        Ok(None) => Ok(Node::text("", 1)),
        Err(error) => Err(error.problem),
    }
}

struct YamlError {
    line: u32,
    problem: String,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        YamlError {
            line: line_number(error.marker().line()),
            problem: format!("not YAML: {}", error.info()),
        }
    }
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

fn parse_document(text: &str) -> Result<Option<Node>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: Vec::new(),
        nodes: 0,
        aliased_bytes: 0,
    };
    let mut root = None;
    while let Some((event, line)) = reader.next()? {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentEnd
            | Event::Nothing
            | Event::DocumentStart(_) => {}
            _ if root.is_some() => {
                return Err(YamlError {
                    line,
                    problem: "the file must hold one document; a second one starts here".into(),
                });
            }
            event => root = Some(reader.node(event, line, 0)?),
        }
    }
    Ok(root)
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Anchored nodes by the parser's number of the anchor.
    anchors: Vec<(usize, Node)>,
    nodes: usize,
    /// The text that aliases stood for.
    aliased_bytes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, u32)>, YamlError> {
        match self.parser.next() {
            None => Ok(None),
            Some(event) => {
                let (event, span) = event?;
                Ok(Some((event, line_number(span.start.line()))))
            }
        }
    }

    fn expect_next(&mut self, line: u32) -> Result<(Event<'a>, u32), YamlError> {
        self.next()?.ok_or_else(|| YamlError {
            line,
            problem: "not YAML: the text ends early".into(),
        })
    }

    fn node(&mut self, event: Event<'a>, line: u32, depth: usize) -> Result<Node, YamlError> {
        if depth > DEEPEST {
            return Err(YamlError {
                line,
                problem: format!("nested deeper than {DEEPEST} levels"),
            });
        }
        self.count_nodes(1, line)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let block = style == ScalarStyle::Literal;
                (
                    anchor,
                    Value::Scalar {
                        text: text.into_owned(),
                        plain,
                        block,
                    },
                )
            }
            Event::SequenceStart(anchor, _) => (anchor, Value::Sequence(self.sequence(line, depth)?)),
            Event::MappingStart(anchor, _) => (anchor, Value::Mapping(self.mapping(line, depth)?)),
            Event::Alias(anchor) => return self.alias(anchor, line),
            _ => {
                return Err(YamlError {
                    line,
                    problem: "not YAML: a value is missing".into(),
                });
            }
        };
        let node = Node { line, value };
        if anchor != 0 {
            self.anchors.push((anchor, node.clone()));
        }
        Ok(node)
    }

    fn sequence(&mut self, line: u32, depth: usize) -> Result<Vec<Node>, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.expect_next(line)? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, line) => items.push(self.node(event, line, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, line: u32, depth: usize) -> Result<Vec<Entry>, YamlError> {
        let mut entries = Vec::new();
        loop {
            let (event, line) = self.expect_next(line)?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let Node {
                value: Value::Scalar { text: key, .. },
                ..
            } = self.node(event, line, depth + 1)?
            else {
                return Err(YamlError {
                    line,
                    problem: "a key must be a plain word".into(),
                });
            };
            let (event, value_line) = self.expect_next(line)?;
            let node = self.node(event, value_line, depth + 1)?;
            entries.push(Entry { key, line, node });
        }
    }

    fn alias(&mut self, anchor: usize, line: u32) -> Result<Node, YamlError> {
        let found = self
            .anchors
            .iter()
            .find(|(number, _)| *number == anchor)
            .map(|(_, node)| (node, size(node), text_bytes(node)));
        let Some((node, size, text_bytes)) = found else {
            return Err(YamlError {
                line,
                problem: "an alias to an anchor that is not closed yet".into(),
            });
        };
        self.aliased_bytes = self.aliased_bytes.saturating_add(text_bytes);
        if self.aliased_bytes > MOST_ALIASED_BYTES {
            return Err(YamlError {
                line,
                problem: format!("aliases stand for more than {MOST_ALIASED_BYTES} bytes of text"),
            });
        }
        let node = Node {
            line,
            value: node.value.clone(),
        };
        self.count_nodes(size, line)?;
        Ok(node)
    }

    fn count_nodes(&mut self, more: usize, line: u32) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MOST_NODES {
            return Err(YamlError {
                line,
                problem: format!("more than {MOST_NODES} values, aliases followed"),
            });
        }
        Ok(())
    }
}

/// Nodes in a tree; its depth is bounded when it is built.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::Sequence(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Mapping(entries) => 1 + entries.iter().map(|entry| 1 + size(&entry.node)).sum::<usize>(),
    }
}

/// Bytes of text in a tree.
fn text_bytes(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { text, .. } => text.len(),
        Value::Sequence(items) => items.iter().map(text_bytes).sum(),
        Value::Mapping(entries) => entries
            .iter()
            .map(|entry| entry.key.len() + text_bytes(&entry.node))
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse_mapping("w.yaml", text).expect_err(text).to_string()
    }

    #[test]
    fn scalars_stay_text_and_keep_their_lines() {
        let entries = parse_mapping(
            "w.yaml",
            "# head\nname: a\n\ntopics: 1_0\nempty:\nquoted: \"\"\nlist: [1, b]\n",
        )
        .expect("YAML");
        let shown: Vec<_> = entries
            .iter()
            .map(|e| (e.key.as_str(), e.line, e.node.shown(), e.node.is_null()))
            .collect();
        assert_eq!(
            shown,
            [
                ("name", 2, "a".to_owned(), false),
                ("topics", 4, "1_0".to_owned(), false),
                ("empty", 5, String::new(), true),
                ("quoted", 6, String::new(), false),
                ("list", 7, "[1, b]".to_owned(), false),
            ]
        );
    }

    #[test]
    fn an_empty_file_is_an_empty_mapping() {
        for text in ["", "# only a comment\n", "---\n", "\u{feff}"] {
            assert_eq!(parse_mapping("w.yaml", text), Ok(Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn a_block_keeps_its_lines_and_an_alias_its_anchor() {
        let entries = parse_mapping("w.yaml", "a: &x |\n  k=1\n  l=2\nb: *x\n").expect("YAML");
        for entry in &entries {
            assert_eq!(
                entry.node.value,
                Value::Scalar {
                    text: "k=1\nl=2\n".into(),
                    plain: false,
                    block: true
                }
            );
        }
    }

    #[test]
    fn what_is_no_workload_file_is_told_with_its_line() {
        assert!(problem("- a\n- b\n").starts_with("w.yaml:1: the file must be a list of `key: value`"));
        assert!(
            problem("a: 1\nb: [1, 2\n").starts_with("w.yaml:"),
            "{}",
            problem("a: 1\nb: [1, 2\n")
        );
        assert!(problem("a: 1\n---\nb: 2\n").contains("w.yaml:3: the file must hold one document"));
        assert!(problem("[a, b]: 1\n").contains("a key must be a plain word"));
        assert!(problem("a: *nowhere\n").contains("w.yaml:1: not YAML"));
    }

    #[test]
    fn nesting_and_aliases_cannot_grow_without_bound() {
        let deep = format!("a: {}1{}", "[".repeat(100), "]".repeat(100));
        assert!(problem(&deep).contains("nested deeper than 16 levels"));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let items = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(problem(&bomb).contains("more than 100000 values"));
    }

    #[test]
    fn aliases_of_a_long_text_cannot_grow_without_bound() {
        let file = |aliases: usize| {
            format!(
                "a: &a {}\nb: [{}]\n",
                "y".repeat(1 << 16),
                vec!["*a"; aliases].join(", ")
            )
        };
        assert!(problem(&file(17)).contains("w.yaml:2: aliases stand for more than 1048576 bytes of text"));
        let entries = parse_mapping("w.yaml", &file(16)).expect("YAML");
        let Value::Sequence(items) = &entries[1].node.value else {
            panic!("a list");
        };
        assert_eq!(items.len(), 16);
        assert!(items.iter().all(|item| item.value == entries[0].node.value));
    }
}
