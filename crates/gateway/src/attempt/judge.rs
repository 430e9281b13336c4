//! Judges answers after they ended, away from the threads that serve: what is kept of an answer whose request offers tools or has a
//! schema is judged once its attempt is over. Its row waits for that. Not for the judgement: see `photofinish_translation::judge`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use photofinish_base::clock::wall_micros;
use photofinish_base::memory::{Lease, Memory};
use photofinish_base::recent::Recent;
use photofinish_base::shutdown::Shutdown;
use photofinish_facts::record::AttemptRecord;
use photofinish_judge::Asked;
use photofinish_routing::learning::Learning;
use photofinish_routing::quality::JudgedAnswer;
use photofinish_translation::ApiRequest;
use photofinish_wire::answer::judgement::{CallsVerdict, Judgement, StructuredVerdict};
use photofinish_wire::conversation::SaidAnswer;

/// Sets of tools with their compiled schemas.
const SETS_MAX: usize = 32;
/// Answers that wait to be judged, or are being judged.
const WAITING_MAX: usize = 256;

/// Judges the answers of all requests.
pub struct AnswerJudge {
    sets: Mutex<Recent<(u32, usize), Arc<Asked>>>,
    waiting: AtomicUsize,
    /// Answers that were not judged because too many waited.
    crowded_out: AtomicU64,
    learning: Arc<Learning>,
}

impl AnswerJudge {
    pub fn new(learning: Arc<Learning>) -> AnswerJudge {
        AnswerJudge {
            sets: Mutex::new(Recent::new(SETS_MAX)),
            waiting: AtomicUsize::new(0),
            crowded_out: AtomicU64::new(0),
            learning,
        }
    }

    /// What this request asks of its answer. None: nothing that is judged.
    pub fn asked(&self, request: &ApiRequest) -> Option<Arc<Asked>> {
        let class = Asked::class_of(request)?;
        let [tools, ..] = request.prompt();
        let key = (class, tools.len());
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sets.get(&key).filter(|asked| asked.is_of(request));
        if known.is_some() {
            return known;
        }
        let asked = Arc::new(Asked::new(request)?);
        sets.remove(&key);
        Some(sets.get_or_make(&key, || asked))
    }

    /// Answers that were not judged because too many waited, since the start.
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out.load(Ordering::Relaxed)
    }

    fn enter(&self) -> bool {
        let is_free = self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX;
        if !is_free {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.crowded_out.fetch_add(1, Ordering::Relaxed);
        }
        is_free
    }
}

/// What one answer says, and who judges it.
pub struct AnswerTape {
    asked: Arc<Asked>,
    judge: Arc<AnswerJudge>,
    /// The configured model; empty where requests name upstreams.
    model: String,
    /// Once the answer is whole.
    said: Option<Box<SaidAnswer>>,
    lease: Lease,
    /// Some events are of calls.
    makes_calls: bool,
    /// The arguments of a call could not be translated.
    has_broken_call: bool,
}

impl AnswerTape {
    pub fn new(asked: Arc<Asked>, judge: Arc<AnswerJudge>, model: String, memory: &Memory) -> AnswerTape {
        AnswerTape {
            asked,
            judge,
            model,
            said: None,
            lease: memory.lease(),
            makes_calls: false,
            has_broken_call: false,
        }
    }

    /// What is to be kept of the answer.
    pub fn wanted(&self) -> SaidAnswer {
        SaidAnswer::new(self.asked.has_format())
    }

    /// Pays for what is kept. Without memory for it, it is forgotten.
    pub fn cover(&mut self, said: &mut Option<Box<SaidAnswer>>) {
        if let Some(said) = said.as_mut().filter(|said| !said.is_empty())
            && self.lease.cover(2 * said.len()).is_err()
        {
            said.give_up();
            self.lease.settle(0);
        }
    }

    /// The answer is whole.
    pub fn take(&mut self, said: Option<Box<SaidAnswer>>) {
        self.said = said;
    }

    pub fn note_call(&mut self) {
        self.makes_calls = true;
    }

    pub fn note_broken_call(&mut self) {
        self.has_broken_call = true;
    }

    /// The judgement that needs no reading. `is_whole`: the answer ended well.
    fn at_once(&self, is_whole: bool) -> Option<Judgement> {
        let unchecked = self.asked.unchecked();
        match (self.has_broken_call, &self.said) {
            (true, _) => Some(Judgement { calls: Some(CallsVerdict::NotJson), structured: None }),
            (false, _) if !is_whole => Some(Judgement::default()),
            (false, None) => Some(unchecked),
            (false, Some(said)) if said.calls.is_empty() && unchecked.structured.is_none() => {
                // A call without a name, or of a tool of the vendor's own.
                let verdict = if self.makes_calls { CallsVerdict::NotChecked } else { CallsVerdict::None };
                Some(Judgement { calls: unchecked.calls.map(|_| verdict), structured: None })
            }
            (false, Some(_)) => None,
        }
    }

    /// Writes the judgement into the row and passes the row on: at once, or after the answer was read elsewhere.
    pub fn judge(
        mut self,
        mut row: Box<AttemptRecord>,
        is_whole: bool,
        shutdown: &Shutdown,
        then: impl FnOnce(Box<AttemptRecord>) + Send + 'static,
    ) {
        row.tool_set = Some(i64::from(self.asked.class()));
        let at_once = self.at_once(is_whole);
        // At the end of the process a thread for it may never run, and the row would be lost.
        if at_once.is_none() && !shutdown.is_draining() && self.judge.enter() {
            shutdown.run_blocking(move || {
                let judged = self.read();
                self.judge.waiting.fetch_sub(1, Ordering::Relaxed);
                self.note(&mut row, judged);
                then(row);
            });
            return;
        }
        self.note(&mut row, at_once.unwrap_or(self.asked.unchecked()));
        then(row);
    }

    fn read(&mut self) -> Judgement {
        let Some(said) = self.said.take() else { return self.asked.unchecked() };
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.asked.judge(&said)));
        judged.unwrap_or(self.asked.unchecked())
    }

    fn note(&self, row: &mut AttemptRecord, judged: Judgement) {
        row.calls = judged.calls.map(CallsVerdict::as_str);
        row.structured = judged.structured.map(StructuredVerdict::as_str);
        let Some(broken) = judged.is_broken().filter(|_| !self.model.is_empty()) else { return };
        let upstream = format!("{}/{}", row.provider, row.model_sent);
        let (model, class) = (&*self.model, self.asked.class());
        let answer = JudgedAnswer { model, upstream: &upstream, class, broken, at_us: wall_micros() };
        self.judge.learning.quality().judged(&answer);
    }
}
