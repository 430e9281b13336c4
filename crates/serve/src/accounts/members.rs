//! The members of requests and answers about teams, users and keys: each is declared once, for what is accepted, what is answered and what
//! the OpenAPI document describes. Not for limits, which are the keys of `[limits]`.

use AccountKind::{Key, Team, User};

use photofinish_history::report::members::{MemberField, MemberKind, field, integer, text};
use photofinish_history::store::AccountKind;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountAction {
    List,
    Show,
    Make,
    Set,
    /// Of a key: it is revoked.
    Remove,
    /// Of a key alone.
    Rotate,
}

/// One member, and the kinds of which requests and answers have it.
#[derive(Clone, Copy, Debug)]
pub struct AccountMember {
    pub field: MemberField,
    /// A request that makes one may have it, and must unless it is optional.
    made: &'static [AccountKind],
    /// A request that changes one may have it.
    set: &'static [AccountKind],
    /// A request that rotates a key may have it.
    rotated: bool,
    /// An answer has it.
    told: &'static [AccountKind],
}

/// Besides limits, which every kind has.
pub const MEMBERS: [AccountMember; 19] = [
    told(text("id", "the id of the key"), &[Key]),
    AccountMember { made: &[Key], ..told(text("user", "whose key it is"), &[Key]) },
    AccountMember {
        made: &AccountKind::ALL,
        set: &[Key],
        ..told(text("name", "the name; of a key, what it is for"), &AccountKind::ALL)
    },
    AccountMember {
        made: &[User],
        set: &[User],
        ..told(text("team", "whose limits count too").or_null().if_known(), &[User])
    },
    AccountMember {
        made: &[User],
        set: &[User],
        ..told(
            text("role", "`admin`, `viewer`, `metrics`, `lead` or `user`, which it is unless set").if_known(),
            &[User],
        )
    },
    AccountMember {
        made: &[Key],
        set: &[Key],
        rotated: true,
        ..told(text("expires", "how long it lives, such as 90d, or a day or time").or_null().if_known(), &[])
    },
    AccountMember {
        rotated: true,
        ..told(text("grace", "how long the key before counts as well as the new one; 24h unless set").if_known(), &[])
    },
    told(text("state", "`active`, `expired` or `revoked`"), &[Key]),
    told(text("created_at", "when it was made"), &[Key]),
    told(text("expires_at", "until when it counts; left out if for ever").if_known(), &[Key]),
    told(text("revoked_at", "when it was revoked").if_known(), &[Key]),
    told(text("replaces", "the key that it replaces").if_known(), &[Key]),
    told(text("replaced_by", "the key that replaces it").if_known(), &[Key]),
    told(text("first", "the first key that it replaces, whose budgets and rates it goes on with").if_known(), &[Key]),
    told(
        text("subject", "whose login it is, as the issuer names them: role and team follow its groups").if_known(),
        &[User],
    ),
    told(text("login_at", "when the issuer last said something new of the user").if_known(), &[User]),
    told(
        text("login_until", "when the login ends, or did; left out while the issuer is asked again").if_known(),
        &[User],
    ),
    told(
        field(
            "standing",
            MemberKind::Open,
            "",
            "what its limits allow, what is left and when it comes back, as of `GET /api/me`; of a running gateway",
        )
        .if_known(),
        &AccountKind::ALL,
    ),
    AccountMember {
        set: &AccountKind::ALL,
        rotated: true,
        ..told(integer("version", "", "of what was looked at: a change needs it").if_known(), &AccountKind::ALL)
    },
];

/// Where one that the API cannot change is declared.
pub const SOURCE: MemberField = text("source", "the file that has it; its limits are in `standing`").if_known();

const fn told(field: MemberField, kinds: &'static [AccountKind]) -> AccountMember {
    AccountMember { field, made: &[], set: &[], rotated: false, told: kinds }
}

/// The members of a request, or of the answer where the action only reads.
pub fn members_of(kind: AccountKind, action: AccountAction) -> Vec<MemberField> {
    let has = |member: &&AccountMember| match action {
        AccountAction::Make => member.made.contains(&kind),
        AccountAction::Set => member.set.contains(&kind),
        AccountAction::Rotate => member.rotated,
        AccountAction::Remove => member.field.name == "version",
        AccountAction::List | AccountAction::Show => member.told.contains(&kind),
    };
    let of = |member: &AccountMember| match action {
        // Unless set, it is a key of who makes it.
        AccountAction::Make if member.field.name == "user" => member.field.if_known(),
        AccountAction::Set if member.field.name == "version" => MemberField { optional: false, ..member.field },
        AccountAction::Set | AccountAction::Rotate => member.field.if_known(),
        _ => member.field,
    };
    let source = matches!((action, kind), (AccountAction::List | AccountAction::Show, Team | User)).then_some(SOURCE);
    MEMBERS.iter().filter(has).map(of).chain(source).collect()
}

/// Their names.
pub fn names_of(kind: AccountKind, action: AccountAction) -> Vec<&'static str> {
    members_of(kind, action).iter().map(|member| member.name).collect()
}
