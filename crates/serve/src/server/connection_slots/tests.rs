//! The slots on a stopped clock.

use super::*;

/// Slots with more memory than they need.
fn places(ordinary: usize, reserve: usize) -> Arc<Places> {
    Places::new(ordinary, reserve, Memory::new(1 << 30))
}

fn peer(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

async fn entered(places: &Arc<Places>, last: u8) -> ConnectionSlot {
    tokio::time::advance(Duration::from_secs(1)).await;
    places.enter(peer(last)).await.unwrap()
}

async fn is_given_up(place: &ConnectionSlot) -> bool {
    tokio::time::timeout(Duration::ZERO, place.given_up()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_address_that_holds_most_gives_up_its_longest_idle_ones() {
    let places = self::places(200, 100);
    let first = entered(&places, 1).await;
    let mut many = Vec::new();
    for _ in 0..199 {
        many.push(entered(&places, 2).await);
    }
    let busy = many[0].connection.begin(false);
    // This one becomes idle only now.
    drop(many[1].connection.begin(false));
    let newcomer = entered(&places, 3).await;
    let mut given_up = Vec::new();
    for (number, place) in many.iter().enumerate() {
        if is_given_up(place).await {
            given_up.push(number);
        }
    }
    assert_eq!(given_up, (2..2 + CLOSED_AT_ONCE).collect::<Vec<_>>());
    assert!(!is_given_up(&first).await && !is_given_up(&newcomer).await);
    drop(busy);
}

#[tokio::test(start_paused = true)]
async fn work_is_not_cut_and_the_reserve_is_only_for_looking() {
    let places = self::places(2, 2);
    let (a, b) = (entered(&places, 1).await, entered(&places, 1).await);
    let work = [a.connection.begin(false), b.connection.begin(false)];
    let reserved = [entered(&places, 1).await, entered(&places, 2).await];
    assert!(a.may_work() && reserved.iter().all(|place| !place.may_work()));
    let _request = reserved[0].connection.begin(false);
    // A new connection replaces one in the reserve, even a busy one, as soon as that one has ended.
    assert!(places.enter(peer(3)).await.is_none());
    assert!(is_given_up(&reserved[0]).await && !is_given_up(&a).await);
    drop(reserved);
    let next = entered(&places, 3).await;
    assert!(!next.may_work());
    let [work, _other] = work;
    drop((work, a));
    assert!(next.may_work(), "there is an ordinary place again, and this is it");
    let _more_work = next.connection.begin(false);
    let late = entered(&places, 3).await;
    assert!(!late.may_work());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_asked_just_then_stays() {
    let places = self::places(1, 1);
    let place = entered(&places, 1).await;
    let _newcomer = entered(&places, 2).await;
    let work = place.connection.begin(false);
    assert!(!is_given_up(&place).await);
    drop(work);
    assert_eq!(places.make_room(), 2);
    assert!(is_given_up(&place).await);
}

#[tokio::test(start_paused = true)]
async fn behind_a_proxy_it_is_the_client_that_holds() {
    let places = self::places(200, 100);
    let mut held = Vec::new();
    for number in 0..200 {
        held.push(entered(&places, 1).await);
        // The first connection is one client's, all others are another's.
        held[number].is_for(peer(if number == 0 { 2 } else { 3 }));
    }
    let _newcomer = entered(&places, 4).await;
    assert!(!is_given_up(&held[0]).await && is_given_up(&held[1]).await);
    drop(held);
    assert_eq!(places.lock().by_peer.len(), 1);
}

/// Makes the connection hold this much more, in one answer that waits.
fn holding(place: &ConnectionSlot, bytes: u64) -> RequestInProgress {
    let mut request = place.begin(true, || false).unwrap();
    request.answers(Some(bytes));
    request
}

#[tokio::test(start_paused = true)]
async fn where_memory_runs_short_the_address_that_holds_most_gives_up_its_largest() {
    let memory = Memory::new(8 << 20);
    let places = Places::new(200, 100, memory.clone());
    // The first address has many connections, the second one holds more with few.
    let mut first = Vec::new();
    for _ in 0..20 {
        first.push(entered(&places, 1).await);
    }
    let second = [entered(&places, 2).await, entered(&places, 2).await, entered(&places, 2).await];
    let busy = second[0].connection.begin(true);
    let mut held = vec![holding(&second[0], 1_000_000), holding(&second[1], 100_000), holding(&second[2], 900_000)];
    assert!(memory.clients() > memory.clients_max());
    let newcomer = entered(&places, 3).await;
    assert!(newcomer.may_work(), "room is made for it");
    assert!(is_given_up(&second[2]).await, "the largest one that is idle");
    assert!(!is_given_up(&second[0]).await && !is_given_up(&second[1]).await);
    for place in &first {
        assert!(!is_given_up(place).await);
    }
    // What is being closed is not counted twice.
    let another = entered(&places, 3).await;
    assert!(another.may_work() && !is_given_up(&second[1]).await);
    held.clear();
    drop((busy, first, second, newcomer, another));
    let held = places.lock();
    assert_eq!((memory.clients(), held.leaving, held.reserved), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_closed_yet_is_no_room_for_those_that_hold_much() {
    for (percent, large_begins, small_begins) in [(130, true, true), (160, false, true), (210, false, false)] {
        let memory = Memory::new(8 << 20);
        let places = Places::new(200, 2, memory.clone());
        let large = entered(&places, 1).await;
        let _answer = holding(&large, memory.clients_max() as u64 * percent / 100);
        let (again, small) = (entered(&places, 1).await, entered(&places, 2).await);
        // What is asked to close is not closed.
        assert_eq!((again.may_work(), small.may_work()), (large_begins, small_begins), "{percent} %");
    }
}

#[tokio::test(start_paused = true)]
async fn where_all_memory_is_at_work_the_reserve_and_first_requests_remain() {
    let memory = Memory::new(4 << 20);
    let places = Places::new(200, 2, memory.clone());
    let large = entered(&places, 1).await;
    let working = [large.connection.begin(true), holding(&large, 3 << 20)];
    assert!(large.begin(true, || true).is_none(), "it has a request already");
    let (mut reserved, mut asked) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let place = entered(&places, 2).await;
        asked.push(place.begin(true, || false).expect("a first request"));
        assert!(!place.may_work() && place.begin(true, || true).is_none());
        reserved.push(place);
    }
    assert!(places.enter(peer(3)).await.is_none(), "the reserve has a bound");
    assert!(!is_given_up(&large).await, "work is not cut");
    drop(working);
    assert!(reserved.iter().all(ConnectionSlot::may_work) && large.begin(true, || true).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_leaves_frees_its_place() {
    let places = self::places(2, 1);
    for _ in 0..10 {
        let held = [entered(&places, 1).await, entered(&places, 1).await];
        let _work = [held[0].connection.begin(false), held[1].connection.begin(false)];
        assert!(!entered(&places, 1).await.may_work());
    }
    let held = places.lock();
    assert!(held.connections.is_empty() && held.by_peer.is_empty() && held.ordinary == 0);
}

#[test]
fn a_host_is_an_ipv4_address_or_a_64th_of_ipv6() {
    for (peer, expected) in [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::1", "::"),
    ] {
        assert_eq!(network(peer.parse().unwrap()).to_string(), expected);
    }
}
