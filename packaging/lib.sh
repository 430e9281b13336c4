# What `packaging/build` and `packaging/test` share: source it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
dist=${DIST:-$root/dist}
# Tools, and what is between two steps.
work=${PACKAGING_WORK:-$root/target/packaging}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$work/target}
export PATH="$work/venv/bin:$work/tools/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

version=$(sed -n '/^\[workspace.package\]/,/^\[dependencies\]/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
# Times in archives are the commit's, so that two builds have the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
PHOTOFINISH_BUILT_FROM=${PHOTOFINISH_BUILT_FROM:-$(git log -1 --format='%H %cs')}
export PHOTOFINISH_BUILT_FROM TZ=UTC LC_ALL=C

# Those with musl are linked statically, and are in every package; the others are an archive alone.
read -ra targets <<<"${PACKAGING_TARGETS:-x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-unknown-linux-gnu}"
static_targets=() glibc_targets=()
for target in "${targets[@]}"; do
  case $target in
    *-musl) static_targets+=("$target") ;;
    *) glibc_targets+=("$target") ;;
  esac
done
old_glibc=2.28

# Where the program of a target is.
program_of() {
  echo "$CARGO_TARGET_DIR/$1/release/photofinish"
}

has() {
  command -v "$1" >/dev/null
}
