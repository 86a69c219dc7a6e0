#!/usr/bin/env bash
# Writes the files of a release into a directory: archives, Debian packages, an OCI image, lists of modules (SBOM)
# and SHA256SUMS. `make release` calls it. The same commit gives the same bytes.
#
#   packaging/release.sh OUT
#
# VERSION (v0.1.0), COMMIT and EPOCH (Unix seconds of the commit) say what is released; PLATFORMS lists OS/ARCH.
# MAINTAINER of the packages is the author of the commit unless it is set. BUILT names a directory of binaries
# OS_ARCH/allium; without it they are built. URL is where releases are published: without it the recipes of
# Homebrew and Nix are not written.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
: "${VERSION:?}" "${COMMIT:?}" "${EPOCH:?}"
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
number=${VERSION#v}
tools=$PWD/bin/tools
maintainer=${MAINTAINER:-$(git log -1 --format="%an <%ae>")}
date=$(TZ=UTC date -d "@$EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=$EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

built=${BUILT:-$work/built}
if [[ -z ${BUILT:-} ]]; then
  for platform in $platforms; do
    echo "build $platform"
    CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} GOAMD64=v1 GOFLAGS=-buildvcs=false \
      "${GO:-go}" build -trimpath -ldflags "-s -w -X allium/node.version=$VERSION -X allium/node.commit=$COMMIT \
-X allium/node.date=$date -X allium/node.modified=${MODIFIED:-}" \
      -o "$built/${platform/\//_}/allium" ./cmd/allium
  done
fi

# Completions come from a binary that runs here.
host=$built/$("${GO:-go}" env GOHOSTOS)_$("${GO:-go}" env GOHOSTARCH)/allium
mkdir "$work/completions"
"$host" completion bash >"$work/completions/allium.bash"
"$host" completion zsh >"$work/completions/_allium"
"$host" completion fish >"$work/completions/allium.fish"

images=()
for platform in $platforms; do
  name=${platform/\//_}
  binary=$built/$name/allium

  echo "archive $platform"
  files=$work/allium_${number}_$name
  mkdir "$files"
  cp "$binary" LICENSE LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$files"
  cp -r "$work/completions" "$files"
  if [[ $platform = linux/* ]]; then
    cp packaging/systemd/allium.service "$files"
    for kind in sysusers sysctl; do
      mkdir -p "$files/$kind.d"
      cp "packaging/systemd/$kind.conf" "$files/$kind.d/allium.conf"
    done
  fi
  chmod -R u=rwX,go=rX "$files"
  tar --directory "$files" --sort=name --format=ustar --mtime="@$EPOCH" --owner=0 --group=0 --numeric-owner \
    --create . | gzip -n >"$out/$(basename "$files").tar.gz"

  "$tools/cyclonedx-gomod" bin -json -noserial -version "$VERSION" -output "$work/sbom.json" "$binary"
  sed '0,/"timestamp"/s/"timestamp": "[^"]*"/"timestamp": "'"$date"'"/' "$work/sbom.json" \
    >"$out/allium_${number}_$name.cdx.json"

  if [[ $platform = linux/* ]]; then
    echo "package $platform"
    arch=${platform#*/}
    BINARY=$binary COMPLETIONS=$work/completions ARCH=$arch VERSION=$number \
      MAINTAINER=$maintainer "$tools/nfpm" package --config packaging/nfpm.yaml --packager deb --target "$out"
    images+=("$platform=$binary")
  fi
done

echo "image ${images[*]%=*}"
"$tools/image" -out "$out/allium_${number}_image.tar" -version "$VERSION" -revision "$COMMIT" -epoch "$EPOCH" \
  "${images[@]}"

# recipe IN OUT writes a recipe with the version and the checksums of the archives.
recipe() {
  local text name
  text=$(<"$1")
  text=${text//@VERSION@/$number} text=${text//@URL@/$URL}
  for platform in $platforms; do
    name=${platform/\//_}
    text=${text//@SHA256_$name@/$(sha256sum "$out/allium_${number}_$name.tar.gz" | cut -d' ' -f1)}
  done
  printf '%s\n' "$text" >"$2"
}
if [[ -n ${URL:-} ]]; then
  recipe packaging/homebrew/allium.rb.in "$out/allium.rb"
  recipe packaging/nix/allium.nix.in "$out/allium.nix"
else
  echo "no recipes of Homebrew and Nix: URL is not set"
fi

cd "$out"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
