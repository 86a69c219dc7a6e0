#!/usr/bin/env bash
# Packages one binary twice in two directories, compares the bytes, and checks the result with the tools of those
# who use it: systemd-analyze verifies the unit, and dpkg installs, upgrades and removes the package below a
# directory. `make package-check` calls it. ALLIUM_CI=1 turns a skip for a missing tool into a failure.
#
#   packaging/check.sh BINARY
set -euo pipefail
binary=$(realpath "$1")
cd "$(dirname "$0")/.."
project=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platform=$(go env GOOS)/$(go env GOARCH)
arch=${platform#*/}

fail() {
  echo "package-check: $*" >&2
  exit 1
}

# needs TOOL says whether the tool is there.
needs() {
  command -v "$1" >/dev/null && return
  [[ -z ${ALLIUM_CI:-} ]] || fail "$1 is missing"
  echo "skipped, as $1 is missing: $2"
  return 1
}

if [[ $platform != linux/* ]]; then
  echo "skipped, as packages are for Linux"
  exit
fi

echo "== package twice, with other directories, masks, time zones and times of the binary"
pack() (
  mkdir -p "$work/built$1/${platform/\//_}"
  cp "$binary" "$work/built$1/${platform/\//_}/allium"
  umask "$2"
  TZ=$3 BUILT=$work/built$1 PLATFORMS=$platform VERSION=v0.1.0 URL=https://example.org/allium \
    packaging/release.sh "$work/out$1"
)
pack 1 022 UTC
sleep 1
pack 2 077 Asia/Tokyo
diff -r "$work/out1" "$work/out2" || fail "two packages of one binary differ"
cd "$work/out1"
sha256sum --quiet --check SHA256SUMS
ls -l

echo "== the archive runs"
mkdir "$work/archive"
tar -xzf "allium_0.1.0_linux_$arch.tar.gz" -C "$work/archive"
"$work/archive/allium" version >/dev/null
[[ -s $work/archive/completions/allium.bash ]] || fail "the archive has no completions"

echo "== the list of modules"
grep -q '"purl": "pkg:golang/github.com/libp2p/go-libp2p@' "allium_0.1.0_linux_$arch.cdx.json" ||
  fail "the SBOM does not name go-libp2p"

echo "== the image"
mkdir "$work/image"
tar -xf allium_0.1.0_image.tar -C "$work/image"
for blob in "$work"/image/blobs/sha256/*; do
  [[ $(sha256sum <"$blob") = "$(basename "$blob")  -" ]] || fail "the blob $blob has another digest"
done
for blob in "$work"/image/blobs/sha256/*; do
  if gzip -t "$blob" 2>/dev/null; then
    layer=$blob
  fi
done
tar -tvzf "$layer" >"$work/layer"
grep -q '^-rwxr-xr-x 0/0 .* usr/bin/allium$' "$work/layer" || fail "the image has no program"
grep -q '^drwx------ 65532/65532 .* data/$' "$work/layer" || fail "nonroot does not own /data"
tar -xOzf "$layer" usr/bin/allium | cmp - "$binary"
[[ $(tar -xOzf "$layer" etc/ssl/certs/ca-certificates.crt | grep -c BEGIN) -gt 100 ]] ||
  fail "the image has no certificates"
grep -q '"User":"65532:65532"' "$work"/image/blobs/sha256/* || fail "the image runs as root"
grep -q '"Healthcheck":' "$work"/image/blobs/sha256/* || fail "the image has no health check"

echo "== the unit"
if needs systemd-analyze "the unit"; then
  # verify looks for the program of the unit, which is here below another directory.
  mkdir -p "$work/unit"
  sed "s,/usr/bin/allium,$work/archive/allium," "$work/archive/allium.service" >"$work/unit/allium.service"
  said=$(systemd-analyze verify --man=no "$work/unit/allium.service" 2>&1) || fail "the unit is wrong: $said"
  ! grep allium.service <<<"$said" || fail "the unit has mistakes"
  # The drop-in that the documentation shows, all of whose lines have to be understood.
  mkdir "$work/unit/allium.service.d"
  sed -n '/^```ini$/,/^```$/{/^```/!p}' "$project/docs/running/install.md" >"$work/unit/allium.service.d/shown.conf"
  grep -q '^MemoryMax=' "$work/unit/allium.service.d/shown.conf" || fail "install.md shows no drop-in"
  said=$(systemd-analyze verify --man=no "$work/unit/allium.service" 2>&1) || fail "the drop-in is wrong: $said"
  ! grep allium.service <<<"$said" || fail "the drop-in has mistakes"
  rm -r "$work/unit/allium.service.d"
  systemd-analyze security --offline=yes --threshold=20 "$work/unit/allium.service" >"$work/exposure" ||
    fail "the unit is less hardened than it was: $(tail -1 "$work/exposure")"
  tail -1 "$work/exposure"
fi

echo "== the package"
if needs dpkg "the package"; then
  # A root with a shell, what the scripts of the package call, and the libraries of that.
  root=$work/root
  mkdir -p "$root"/{bin,usr/bin,etc,tmp,var/lib/dpkg/{info,updates,triggers}}
  : >"$root/var/lib/dpkg/available"
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\n' >"$root/etc/group"
  # The one dependency is here as if it were installed.
  printf 'Package: systemd\nStatus: install ok installed\nArchitecture: %s\nVersion: 252\nMaintainer: x\n%s\n' \
    "$arch" 'Description: for the check' >"$root/var/lib/dpkg/status"
  : >"$root/var/lib/dpkg/info/systemd.list"
  for tool in sh install systemd-sysusers; do
    path=$(command -v "$tool") || fail "$tool is missing"
    cp -L "$path" "$root/bin/"
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
      mkdir -p "$root$(dirname "$library")" && cp -Ln "$library" "$root$library"
    done
  done
  deb=$work/out1/allium_0.1.0_$arch.deb
  run() { dpkg --root="$root" --log=/dev/null "$@"; }
  run -i "$deb" | tee "$work/installed"
  grep -q 'systemctl enable --now allium' "$work/installed" || fail "the package does not say how to start it"
  grep -q '^allium:x:[0-9]*:[0-9]*:allium node:/var/lib/allium:' "$root/etc/passwd" || fail "there is no user allium"
  [[ $(stat -c %a "$root/var/lib/allium") = 700 ]] || fail "the home is open to others"
  [[ ! -e $root/etc/systemd/system/multi-user.target.wants/allium.service ]] || fail "the service is enabled"
  chroot "$root" /usr/bin/allium version >/dev/null || fail "the installed program does not run"
  touch "$root/var/lib/allium/identity.key"
  run -i "$deb" >/dev/null # an upgrade
  run --remove allium >/dev/null
  [[ ! -e $root/usr/bin/allium ]] || fail "a removed package leaves its program"
  run --purge allium
  [[ -e $root/var/lib/allium/identity.key ]] || fail "a purge deletes the identity"
fi
echo "package-check: good"
