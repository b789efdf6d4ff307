//! Which folders of the crate a source file names.

/// What a source file names.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// The crate's top-level modules, by paths that were resolved; `*` or `as` for the crate's root as a whole.
    pub(crate) folders: Vec<String>,
    /// Every word of the code.
    pub(crate) words: Vec<String>,
}

/// What the file of the module `modules` (from the crate's root) names.
pub(crate) fn named(modules: &[&str], source: &str) -> Named {
    let tokens = tokens(source);
    let words = tokens.iter().filter(|token| is_word(token)).cloned().collect();
    let mut walk = Walk { tokens: &tokens, at: 0, folders: Vec::new() };
    walk.file(modules);
    Named { folders: walk.folders, words }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Goes through the tokens once.
struct Walk<'a> {
    tokens: &'a [String],
    at: usize,
    folders: Vec<String>,
}

impl Walk<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn ahead(&self, by: usize) -> &str {
        self.tokens.get(self.at + by).map_or("", String::as_str)
    }

    fn file(&mut self, modules: &[&str]) {
        let mut module: Vec<String> = modules.iter().map(|&part| part.to_owned()).collect();
        // For each open brace, whether it is an inline module's.
        let mut braces = Vec::new();
        while self.at < self.tokens.len() {
            match self.peek() {
                "mod" if self.ahead(2) == "{" => {
                    module.push(self.ahead(1).to_owned());
                    braces.push(true);
                    self.at += 3;
                }
                "{" => {
                    braces.push(false);
                    self.at += 1;
                }
                "}" => {
                    if braces.pop() == Some(true) {
                        module.pop();
                    }
                    self.at += 1;
                }
                "crate" | "super" | "self" => self.path(module.clone()),
                word if is_word(word) => {
                    self.at += 1;
                    // The rest of a path that begins elsewhere.
                    while self.peek() == "::" && self.ahead(1) != "{" {
                        self.at += 2;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// One path, or one branch of a group, that begins at `place`.
    fn path(&mut self, mut place: Vec<String>) {
        let mut first = true;
        loop {
            let token = self.peek().to_owned();
            match token.as_str() {
                "crate" if first => place.clear(),
                "self" => {}
                "super" => drop(place.pop()),
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(), "}" | "") {
                        if self.peek() == "," {
                            self.at += 1;
                        } else {
                            self.path(place.clone());
                        }
                    }
                    self.at += 1;
                    return;
                }
                word => {
                    if place.is_empty() {
                        self.folders.push(word.to_owned());
                    }
                    place.push(word.to_owned());
                }
            }
            self.at += 1;
            first = false;
            if self.peek() == "::" {
                self.at += 1;
                continue;
            }
            if self.peek() == "as" {
                if place.is_empty() {
                    self.folders.push("as".to_owned());
                }
                self.at += 2;
            }
            return;
        }
    }
}

/// The words and signs of Rust code, without comments, texts, characters and lifetimes.
fn tokens(source: &str) -> Vec<String> {
    let (chars, mut at, mut tokens): (Vec<char>, _, _) = (source.chars().collect(), 0, Vec::new());
    let get = |at: usize| chars.get(at).copied().unwrap_or('\0');
    while at < chars.len() {
        let (c, next) = (get(at), get(at + 1));
        if c == '/' && next == '/' {
            while at < chars.len() && get(at) != '\n' {
                at += 1;
            }
        } else if c == '/' && next == '*' {
            at = after_comment(&chars, at);
        } else if c == '"' {
            at = after_text(&chars, at);
        } else if c == '\'' {
            at = after_quote(&chars, at);
        } else if c.is_alphanumeric() || c == '_' {
            let start = at;
            while get(at).is_alphanumeric() || get(at) == '_' {
                at += 1;
            }
            let word: String = chars.get(start..at).unwrap_or_default().iter().collect();
            if word.ends_with('r') && word.len() <= 2 && matches!(get(at), '"' | '#') {
                at = after_raw(&chars, at);
            } else {
                tokens.push(word);
            }
        } else if c == ':' && next == ':' {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}

/// Comments nest.
fn after_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars.get(at), chars.get(at + 1)) {
            (Some('/'), Some('*')) => (depth, at) = (depth + 1, at + 2),
            (Some('*'), Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn after_text(chars: &[char], mut at: usize) -> usize {
    at += 1;
    while at < chars.len() {
        match chars.get(at) {
            Some('\\') => at += 2,
            Some('"') => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// A raw text from its first `#` or quote on; a raw word (`r#type`) is left as it is.
fn after_raw(chars: &[char], mut at: usize) -> usize {
    let start = at;
    while chars.get(at) == Some(&'#') {
        at += 1;
    }
    let marks = at - start;
    if chars.get(at) != Some(&'"') {
        return at;
    }
    at += 1;
    while at < chars.len() {
        let closes = chars.get(at) == Some(&'"')
            && chars.get(at + 1..at + 1 + marks).is_some_and(|rest| rest.iter().all(|mark| *mark == '#'));
        at += 1;
        if closes {
            return at + marks;
        }
    }
    at
}

/// A character or a lifetime.
fn after_quote(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let end = chars.iter().skip(at + 3).position(|c| *c == '\'');
            end.map_or(chars.len(), |end| at + 4 + end)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}
