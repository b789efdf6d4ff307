use super::*;
use crate::{cli::check::Verdict, kafka::Member, model::Bucket};

fn member(client: &str, buckets: &[i32]) -> Member {
    let buckets = buckets.iter().filter_map(|one| Bucket::from_partition(*one)).collect();
    Member { client: client.to_owned(), host: "/127.0.0.1".to_owned(), buckets }
}

fn group(state: GroupState, members: Vec<Member>) -> GroupInfo {
    GroupInfo { state, members }
}

/// A bucket that `owner` has claimed and `assigned` has.
fn bucket(number: u16, owner: Option<&str>, assigned: Option<&str>) -> BucketStatus {
    BucketStatus {
        bucket: number,
        owner: owner.map(str::to_owned),
        released: owner.map(|_| false),
        assigned: assigned.map(str::to_owned),
        ..BucketStatus::default()
    }
}

fn stable() -> GroupInfo {
    group(GroupState::Stable, vec![member("c1", &[0]), member("c2", &[1])])
}

#[test]
fn a_group_is_judged_by_its_members() {
    let judged = |group: Option<&GroupInfo>| membership(group, "b.controllers", Buckets::new(2).unwrap());
    assert_eq!(judged(Some(&stable())).result, Verdict::Ok);
    assert!(judged(Some(&stable())).found.contains("c1 (1), c2 (1)"), "{:?}", judged(Some(&stable())));
    assert_eq!(judged(Some(&group(GroupState::Empty, vec![]))).result, Verdict::Warning);
    assert_eq!(judged(Some(&group(GroupState::Rebalancing, vec![]))).result, Verdict::Warning);
    let twins = group(GroupState::Stable, vec![member("c1", &[0]), member("c1", &[1])]);
    assert!(judged(Some(&twins)).found.contains("same name"), "{:?}", judged(Some(&twins)));
    assert!(judged(None).found.contains("not checked"));
}

#[test]
fn a_bucket_is_right_when_it_is_claimed_by_whom_it_is_assigned_to() {
    let judged = |statuses: &[BucketStatus], comparable| assignments(Some(&stable()), statuses, comparable);
    let right = [bucket(0, Some("c1"), Some("c1")), bucket(1, Some("c2"), Some("c2"))];
    assert_eq!(judged(&right, true).result, Verdict::Ok);

    let dead = [bucket(0, Some("c1"), None)];
    assert!(judged(&dead, true).found.contains("last c1's, who is gone"), "{:?}", judged(&dead, true));
    let given_up = BucketStatus { released: Some(true), ..bucket(0, Some("c1"), None) };
    assert!(judged(std::slice::from_ref(&given_up), true).found.contains("given up by c1"));

    // A takeover that does not end.
    for taking in [
        bucket(0, Some("c1"), Some("c2")),
        bucket(0, None, Some("c2")),
        BucketStatus { assigned: Some("c1".to_owned()), ..given_up },
    ] {
        let finding = judged(std::slice::from_ref(&taking), true);
        assert_eq!(finding.result, Verdict::Warning, "{taking:?}");
        assert!(finding.found.contains("not claimed yet"), "{finding:?}");
    }
    let renamed = [bucket(0, Some("c1"), Some("rdkafka"))];
    assert_eq!(
        judged(&renamed, false).result,
        Verdict::Ok,
        "clients with names of their own are no takeover"
    );
}

#[test]
fn messages_that_nobody_handles_are_a_failure_and_others_are_not() {
    let judged = |status: BucketStatus| backlog(Some(&stable()), &[status]).pop().unwrap();
    let waiting = |assigned| BucketStatus { lag: 7, end: 7, ..bucket(0, Some("c1"), assigned) };
    assert_eq!(judged(bucket(0, Some("c1"), None)).result, Verdict::Ok, "nothing waits");
    assert_eq!(judged(waiting(None)).result, Verdict::Failed);
    assert_eq!(judged(waiting(Some("c1"))).result, Verdict::Ok);
    let tried = judged(BucketStatus { tried: Some((3, 2)), ..waiting(Some("c1")) });
    assert_eq!(tried.result, Verdict::Warning);
    assert!(tried.found.contains("offset 3 was tried 2 times"), "{tried:?}");
}

#[test]
fn an_offset_outside_its_log_is_told() {
    for committed in [4, 11] {
        let status = BucketStatus { committed: Some(committed), start: 5, end: 10, ..bucket(0, None, None) };
        let findings = backlog(None, &[status]);
        assert!(findings[0].found.contains("outside their log"), "{committed}: {findings:?}");
    }
    for committed in [5, 10] {
        let status = BucketStatus { committed: Some(committed), start: 5, end: 10, ..bucket(0, None, None) };
        assert_eq!(backlog(None, &[status]).len(), 1, "{committed}");
    }
}

#[test]
fn of_many_buckets_only_some_are_named() {
    let many: Vec<_> = (0..64).map(|number| bucket(number, None, None)).collect();
    let finding = assignments(Some(&stable()), &many, true);
    assert!(finding.found.contains("0, 1, 2, 3, and 60 more"), "{finding:?}");
}
