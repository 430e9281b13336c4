//! One race's policy: its driver, made from the candidates and from what is known of them. Not for the attempts: see `launcher`.

use std::sync::Arc;

use crate::proxy::request::candidate_set::CandidateSet;
use photofinish_base::clock::Instant;
use photofinish_config::{Objective, QualityRule};
use photofinish_race::AttemptStart;
use photofinish_routing::health::{Candidate, UpstreamHealth, prompt_length};
use photofinish_routing::learning::{Learning, ObserverSpec, PrefixBlocks};
use photofinish_routing::money::RaceBudget;
use photofinish_routing::money::tariff::PromptTokens;
use photofinish_routing::policy::plan::RacePlan;
use photofinish_routing::policy::{
    CandidateState, CandidateTurn, ContextFits, LookTicket, PolicyDriver, PolicyDriverParts,
};
use photofinish_translation::ApiRequest;

/// One race's driver, and the targets of its attempts' reports.
pub struct RacePolicy {
    pub driver: PolicyDriver,
    learning: Arc<Learning>,
    blocks: PrefixBlocks,
    /// Bytes of the request.
    bytes: usize,
    /// The client does not stream.
    waits_for_all: bool,
}

impl RacePolicy {
    pub fn new(
        health: &UpstreamHealth,
        candidates: &CandidateSet,
        request: &ApiRequest,
        read_at: Instant,
    ) -> RacePolicy {
        let learning = health.learning();
        let began_us = learning.at_us(read_at);
        let blocks = learning.blocks(&request.prompt());
        let tokens = request.len() as f64 / 4.0;
        let domains: Vec<Option<&str>> =
            candidates.each().map(|candidate| candidate.upstream.provider.domain.as_deref()).collect();
        let is_judged = request.has_tools || request.asks_json;
        let judged_in = candidates.judged_in.as_ref().unwrap_or(&candidates.model);
        let state = |(place, candidate): (usize, &Candidate)| {
            let known = learning.upstream(&candidate.name);
            let known_tokens = learning.known_tokens(&known, &blocks, began_us).min(tokens);
            let cached = known_tokens * known.caching();
            CandidateState {
                plain: request.surface.streams() && health.answers_plain(candidate, request),
                tariff: candidates.basis.tariff(candidate.upstream.billing()),
                prompt: PromptTokens { uncached: tokens - cached, cached },
                known_tokens,
                // A domain's number is the index of its first candidate.
                domain: domains[place]
                    .and_then(|domain| domains.iter().position(|other| *other == Some(domain)))
                    .and_then(|place| u32::try_from(place).ok()),
                weight: candidate.upstream.weight,
                tier: candidate.upstream.tier,
                in_flight_max: candidate.upstream.in_flight_max.into_iter().chain(candidate.room).min(),
                worse: candidates.settings.quality == QualityRule::Prefer && candidate.worse.is_some(),
                reads_on: is_judged && learning.quality().wants_answers(judged_in, &candidate.name, began_us),
                first_token: candidate.upstream.timeouts.first_token,
                turn: match candidate.last {
                    Some(_) => CandidateTurn::Last,
                    None if candidate.trial => CandidateTurn::Trial,
                    None => CandidateTurn::Usual,
                },
                started: None,
                is_new: false,
                known,
            }
        };
        let cost_budget = |budget| learning.cost_budget(&candidates.model, budget, candidates.basis.is_money());
        let race_budget =
            RaceBudget::new(cost_budget(candidates.settings.budget), candidates.settings.policy.spends_budget())
                .within(candidates.within_budget.map(cost_budget));
        let states: Vec<CandidateState> = candidates.each().enumerate().map(state).collect();
        let upstreams = candidates.draws_look().filter(|_| request.surface.streams());
        let driver = PolicyDriver::new(PolicyDriverParts {
            settings: candidates.settings.clone(),
            look: upstreams.map(|upstreams| LookTicket {
                upstreams,
                draw: fastrand::f64(),
                in_doubt: is_judged && learning.quality().is_in_doubt(judged_in),
            }),
            candidates: states,
            race_budget: Arc::new(race_budget),
            fits: ContextFits::new(candidates.list.iter().map(|one| one.window).collect(), || prompt_length(request)),
            began_us,
            draw: fastrand::f64(),
            in_usd: candidates.basis.is_money(),
            for_answer: candidates.settings.optimise == Objective::Auto && request.waits_for_answer(),
            pinned: candidates.session.pinned,
            crowded: candidates.crowded,
        });
        let waits_for_all = request.surface.streams() && !request.stream;
        RacePolicy { driver, learning: learning.clone(), blocks, bytes: request.len(), waits_for_all }
    }

    /// The opening of the race.
    pub fn plan(&mut self) -> RacePlan {
        let now_us = self.now_us();
        if self.waits_for_all { self.driver.plan_whole(now_us) } else { self.driver.plan(now_us) }
    }

    /// The time on the clock of the driver, microseconds.
    pub fn now_us(&self) -> i64 {
        self.learning.now_us()
    }

    /// The observer of an attempt that starts now.
    pub fn observer(&mut self, AttemptStart { candidate, ordinal, reason, .. }: AttemptStart) -> ObserverSpec {
        self.driver.started(candidate, (ordinal, reason), &self.learning, self.blocks.clone(), self.bytes)
    }
}
