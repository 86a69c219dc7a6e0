#!/usr/bin/env bash
# wget2 follows nothing on a page after an unquoted attribute that is a slash, if another one comes next.
#
# wget2 1.99.1-2.2 (Debian 12). HTML lets an attribute go without quotes, so `<a href=/ class=top>` is a
# link to the top (HTML standard, section 13.1.2.3). wget2 fetches none of the links that come later on
# the page, ends with 0 and says nothing. It reads `<a href=/>` well. wget 1.21 reads both whole.
#
# Seen: of two files that a page links to, wget2 fetches both if the link to the top between them has
# quotes, and the first alone if it has none.
# For a page of links: write quotes around every attribute, also where HTML does not ask for them.
set -euo pipefail
command -v wget2 >/dev/null || apt-get install -y -qq --no-install-recommends wget2=1.99.1-2.2 >/dev/null
command -v wget >/dev/null || apt-get install -y -qq --no-install-recommends wget >/dev/null
dir=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
mkdir site
for kind in quoted bare; do
  mkdir "site/$kind"
  echo one >"site/$kind/one.txt"
  echo two >"site/$kind/two.txt"
done
page='<!doctype html><title>t</title><a href="one.txt">one</a> %s <a href="two.txt">two</a>\n'
# shellcheck disable=SC2059
printf "$page" '<a href="/" class="top">top</a>' >site/quoted/index.html
# shellcheck disable=SC2059
printf "$page" '<a href=/ class=top>top</a>' >site/bare/index.html
python3 -u -m http.server --bind 127.0.0.1 --directory site 0 >log 2>&1 &
server=$!
for _ in $(seq 50); do
  port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' log)
  [[ -z $port ]] || break
  sleep 0.1
done
fetched() { # PROGRAM KIND: the text files that the program fetched
  mkdir -p "out-$1-$2"
  (cd "out-$1-$2" && timeout 60 "$1" -q -r -l 1 -np -nH "http://127.0.0.1:$port/$2/" >/dev/null 2>&1) || true
  (cd "out-$1-$2" && find . -name '*.txt' -printf '%f ' | tr ' ' '\n' | sort | xargs)
}
wget2 --version | head -1
failed=0
for case in "wget2 quoted one.txt two.txt" "wget2 bare one.txt" "wget quoted one.txt two.txt" "wget bare one.txt two.txt"; do
  read -r program kind want <<<"$case"
  got=$(fetched "$program" "$kind")
  echo "$program, $kind: $got"
  [[ $got == "$want" ]] || failed=1
done
[[ $failed == 0 ]] || { echo "this has changed"; exit 1; }
echo "as described"
