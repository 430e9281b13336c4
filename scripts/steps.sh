# What `.ci/run` and `scripts/verify` share: source it from the root of the repository.
set -uo pipefail
exec </dev/null
export CARGO_TERM_COLOR=never NO_COLOR=1
# Each crate is built once, so what a second build would reuse only fills the disk.
export CARGO_INCREMENTAL=0
# A snapshot that differs fails its test and is not written.
export INSTA_UPDATE=no
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
passed=0
profile=${profile:-release}
# The folder of the profile `dev` has another name.
photofinish=${CARGO_TARGET_DIR:-$PWD/target}/${profile/#dev/debug}/photofinish

# step TITLE COMMAND…: runs a function or program, says how long it took, and ends the run if it fails.
step() {
  local title=$1 begun=$SECONDS status
  shift
  printf '\n=== %s\n' "$title"
  (
    set -e
    "$@"
  )
  status=$?
  if [ "$status" -ne 0 ]; then
    printf -- '--- FAILED: %s (exit code %d, after %d s)\n\nci: %d passed, 1 failed\n' \
      "$title" "$status" $((SECONDS - begun)) "$passed"
    exit 1
  fi
  passed=$((passed + 1))
  printf -- '--- ok: %s (%d s)\n' "$title" $((SECONDS - begun))
}

# until_true SECONDS WHAT COMMAND…: waits for the command to succeed, at most that long.
until_true() {
  local seconds=$1 what=$2 tries
  shift 2
  for ((tries = seconds * 10; tries > 0; tries--)); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  echo "waited $seconds s in vain: $what"
  return 1
}

listens_or_gone() {
  grep -q 'listening.*http://127' serve.log || gone "$1"
}

gone() {
  ! kill -0 "$1" 2>/dev/null
}

# needed PACKAGE…: installs Debian packages, where there is apt-get.
needed() {
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } || echo "cannot install $*"
}

build() {
  cargo build --locked --profile "$profile"
}

# instructions [CASE…]: what a request costs, against the committed figures of this profile. scripts/instructions says when it
# skips them.
instructions() {
  command -v valgrind >/dev/null || needed valgrind
  timeout 300 scripts/instructions --binary "$photofinish" --check "benches/instructions-$profile.json" ${1:+--only "$@"}
}

ended() {
  printf '\nall of it in %d s\nci: %d passed, 0 failed\n' "$SECONDS" "$passed"
}
