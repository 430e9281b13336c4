//! The beginning of a continuation, held back until it is clear that it does not repeat what was delivered: some models start
//! over, or say the last words again.

use memchr::memmem;

/// The answer did not repeat the delivered text, or is no continuation of it. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged;

/// Bytes from which on an equal text is no chance.
const OVERLAP: usize = 16;
/// Bytes of the beginning of the delivered text that show that the answer starts over, if it then says something else.
const RESTART: usize = 32;
/// Maximum bytes of last words that are said again.
const REPEATED_MAX: usize = 1_024;

/// A continuation so far.
pub(super) struct Continued {
    /// The delivered text.
    said: String,
    /// Text that is not given out yet.
    held: String,
    /// It is clear that the rest is new.
    decided: bool,
}

impl Continued {
    pub fn behind(said: &str) -> Continued {
        Continued { said: said.to_owned(), held: String::new(), decided: false }
    }

    /// Adds text, and returns what is new in it, as far as that is known.
    ///
    /// # Errors
    /// The answer started over with another text.
    pub fn add(&mut self, new: String) -> Result<String, Diverged> {
        if self.decided {
            return Ok(new);
        }
        self.held.push_str(&new);
        let start = self.held.trim_start();
        if start.is_empty() || self.is_within(start) {
            return Ok(String::new());
        }
        self.settle()
    }

    /// The continuation ends, and returns what is new in the text that is held.
    ///
    /// # Errors
    /// It is white space alone, or a part of a repetition. `may_be_empty`: something else than text follows.
    pub fn end(&mut self, may_be_empty: bool) -> Result<String, Diverged> {
        let start = self.held.trim_start();
        match self.decided {
            true => Ok(String::new()),
            false if start.is_empty() && !(may_be_empty && self.held.is_empty()) => Err(Diverged),
            // The model stopped before it had repeated everything.
            false if start.len() >= OVERLAP && self.is_within(start) => Err(Diverged),
            false => self.settle(),
        }
    }

    /// The delivered text has this text before its end, so that the next words may repeat it further.
    fn is_within(&self, start: &str) -> bool {
        memmem::find(self.said.as_bytes(), start.as_bytes()).is_some_and(|at| at + start.len() < self.said.len())
    }

    fn settle(&mut self) -> Result<String, Diverged> {
        self.decided = true;
        let (held, said) = (std::mem::take(&mut self.held), std::mem::take(&mut self.said));
        let (start, all) = (held.trim_start(), said.trim_start());
        let may_restart = !is_periodic(all.as_bytes().get(..REPEATED_MAX).unwrap_or(all.as_bytes()));
        if let Some(rest) = start.strip_prefix(all).filter(|_| may_restart && all.len() >= OVERLAP) {
            return Ok(rest.to_owned());
        }
        let same = start.bytes().zip(all.bytes()).take_while(|(one, other)| one == other).count();
        if may_restart && same >= RESTART {
            return Err(Diverged);
        }
        let longest = start.len().min(REPEATED_MAX);
        let repeated = (OVERLAP..=longest)
            .rev()
            .find(|len| start.get(..*len).is_some_and(|words| said.ends_with(words) && !is_periodic(words.as_bytes())));
        Ok(repeated.map_or(held.clone(), |len| start.get(len..).unwrap_or_default().to_owned()))
    }
}

/// A row of the same: more of it may be meant.
fn is_periodic(words: &[u8]) -> bool {
    (1..=words.len() / 2).any(|period| words[period..] == words[..words.len() - period])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is new, if the text comes in these pieces.
    fn new(said: &str, pieces: &[&str]) -> Result<String, Diverged> {
        let mut continued = Continued::behind(said);
        let mut new = String::new();
        for piece in pieces {
            new += &continued.add((*piece).to_owned())?;
        }
        Ok(new + &continued.end(true)?)
    }

    #[test]
    fn what_was_delivered_is_not_said_again() {
        const SAID: &str = "The capital of France is a city";
        let table: &[(&str, &[&str], Result<&str, Diverged>)] = &[
            // It goes on.
            (SAID, &[" on the", " Seine."], Ok(" on the Seine.")),
            (SAID, &["."], Ok(".")),
            (SAID, &[], Ok("")),
            (SAID, &["The", " end"], Ok("The end")),
            // It starts over.
            (SAID, &["The capital of France is a city on the Seine."], Ok(" on the Seine.")),
            (SAID, &["The cap", "ital of Fra", "nce is a city", "."], Ok(".")),
            (SAID, &["\n", "The capital of France is a city", " on"], Ok(" on")),
            (SAID, &[SAID], Ok("")),
            (SAID, &["The capital of France"], Err(Diverged)),
            (
                "The capital of France is a city on the Seine",
                &["The capital of France is a city on a river"],
                Err(Diverged),
            ),
            // It says the last words again.
            (SAID, &["of France is a city", " on the Seine."], Ok(" on the Seine.")),
            (SAID, &["a city", " on the Seine."], Ok("a city on the Seine.")),
            ("0, 0, 0, 0, 0, 0, 0, 0, 0, ", &["0, 0, 0, 0, 0, 0, 0, 1"], Ok("0, 0, 0, 0, 0, 0, 0, 1")),
            (
                "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ",
                &["0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1"],
                Ok("0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1"),
            ),
            ("é", &["é", "é"], Ok("éé")),
            // It says nothing.
            (SAID, &[" ", "\n"], Err(Diverged)),
        ];
        for (said, pieces, expected) in table {
            assert_eq!(new(said, pieces), expected.map(str::to_owned), "{said:?} {pieces:?}");
            let all = pieces.concat();
            let each: Vec<String> = all.chars().map(String::from).collect();
            let each: Vec<&str> = each.iter().map(String::as_str).collect();
            assert_eq!(new(said, &each), expected.map(str::to_owned), "{said:?} {pieces:?}, each character");
        }
        assert_eq!(Continued::behind(SAID).end(false), Err(Diverged), "it was cut before its first word");
    }
}
