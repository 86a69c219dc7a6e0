package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/internal/testkit"
	"allium/node/config"
)

// A fenced block of the documentation says in its info string what a test does
// with it:
//
//	sh run            the block runs, in the same shell as those before it
//	sh run node=NAME  it starts a node in the background; the test waits until
//	                  that is ready and, with --bootstrap, connected
//	sh check=REASON   it needs what a test has not; only its commands and flags
//	                  are looked up. notRun has the reasons
//	text output       what the run block before it prints; … stands for anything
//	toml              configuration, whose keys are looked up
//	promql            queries, whose metrics are looked up
//
// Every sh block is of one of these kinds.
type docsBlock struct {
	page string
	line int
	info []string
	text string
}

func (b docsBlock) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// value returns the part of the info string after "name=".
func (b docsBlock) value(name string) string {
	for _, word := range b.info {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			return v
		}
	}
	return ""
}

// notRun lists why a block need not run.
var notRun = map[string]string{
	"build":   "it builds or installs from a checkout",
	"slow":    "it takes minutes",
	"root":    "it needs root",
	"dns":     "it needs a public name",
	"machine": "it needs another machine, or a service that is set up on this one",
	"node":    "it needs a node in a state that the page does not make",
}

// docsPages lists the pages below the repository that are written by hand.
func docsPages(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) == ".md" && filepath.Base(filepath.Dir(name)) != "reference" {
			rel, _ := filepath.Rel(root, name)
			pages = append(pages, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// blocksOf reads the fenced blocks of a page.
func blocksOf(t *testing.T, page string) (blocks []docsBlock) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var open *docsBlock
	for i, line := range strings.Split(string(src), "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &docsBlock{page: page, line: i + 1, info: strings.Fields(info)}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s: the block does not end", open)
	}
	return blocks
}

// TestDocsRun runs the blocks of each page that are marked for it.
func TestDocsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts nodes and runs the commands of every page")
	}
	for _, tool := range []string{"bash", "curl", "diff", "seq"} {
		if _, err := exec.LookPath(tool); err != nil {
			testkit.Missing(t, fmt.Sprintf("%v: the documentation's commands are not run", err))
		}
	}
	t.Parallel()
	for _, page := range docsPages(t) {
		var blocks []docsBlock
		for _, b := range blocksOf(t, page) {
			if slices.Contains(b.info, "run") || slices.Contains(b.info, "output") {
				blocks = append(blocks, b)
			}
		}
		if len(blocks) > 0 {
			t.Run(page, func(t *testing.T) { runDocs(t, blocks) })
		}
	}
}

// docsPorts are the ports that the pages use; a test puts free ones in their place.
var docsPorts = []string{"4901", "4902", "8080", "8081", "9600", "9601"}

// runDocs runs blocks in one shell and compares what they print.
func runDocs(t *testing.T, blocks []docsBlock) {
	dir, out := t.TempDir(), t.TempDir()
	toFree, toDocs := freePorts(t)
	script := "set -eu -o pipefail\n" +
		"__ready() {\n" +
		"  for i in $(seq 1200); do grep -q ^ready \"$1\" && break; sleep 0.1; done; grep -q ^ready \"$1\" || " +
		"exit 97\n" +
		"  [ \"$2\" = alone ] && return; local url=$(sed -n 's/^admin on //p' \"$1\")\n" +
		"  for i in $(seq 600); do curl -s \"$url/readyz\" | grep -q '\"network\": *true' && return; " +
		"sleep 0.1; done; exit 98\n" +
		"}\n"
	last := -1
	for i, b := range blocks {
		if !slices.Contains(b.info, "run") {
			if i == 0 || last != i-1 {
				t.Errorf("%s: there is no run block before this output", b)
			}
			continue
		}
		last = i
		file := filepath.Join(out, strconv.Itoa(i))
		script += fmt.Sprintf("echo %d >%s\n{\n%s} >%s 2>%s.err\n",
			i, filepath.Join(out, "at"), toFree.Replace(b.text), file, file)
		if b.value("node") != "" {
			network := "alone"
			if strings.Contains(b.text, "--bootstrap") {
				network = "network"
			}
			script += fmt.Sprintf("__ready %s %s\n", file, network)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ALLIUM_") }),
		"HOME="+dir, "TMPDIR="+dir)
	// What the pages leave at its default must not meet other nodes of this machine.
	cmd.Env = append(cmd.Env, "ALLIUM_LISTEN__MDNS=false") // no packet leaves the machine
	for key, value := range map[string]string{
		"gateway.listen":  "127.0.0.1:8080",
		"admin.listen":    "127.0.0.1:9600",
		"listen.addrs":    "/ip4/127.0.0.1/tcp/4901",
		"listen.port_map": "false",
	} {
		cmd.Env = append(cmd.Env, "ALLIUM_"+strings.ToUpper(strings.ReplaceAll(key, ".", "__"))+
			"="+toFree.Replace(value))
	}
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nodes that the page left
	}
	if err != nil {
		at, _ := os.ReadFile(filepath.Join(out, "at"))
		i, _ := strconv.Atoi(strings.TrimSpace(string(at)))
		printed, _ := os.ReadFile(filepath.Join(out, strconv.Itoa(i)))
		failed, _ := os.ReadFile(filepath.Join(out, strconv.Itoa(i)+".err"))
		t.Fatalf("%s: %v\n%s\nit printed\n%s%s%s", blocks[i], err, blocks[i].text, printed, failed, text)
	}
	for i, b := range blocks {
		if i == 0 || !slices.Contains(b.info, "output") {
			continue
		}
		got, err := os.ReadFile(filepath.Join(out, strconv.Itoa(i-1)))
		if err != nil {
			t.Fatal(err)
		}
		if printed := toDocs.Replace(string(got)); !docsPattern(b.text).MatchString(printed) {
			t.Errorf("%s: the page shows\n%s\nprinted is\n%s", b, b.text, printed)
		}
	}
}

// docsPattern is what an output block stands for: … is anything in a line, and a
// line with nothing else any number of lines.
func docsPattern(text string) *regexp.Regexp {
	var pattern strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`)
}

func TestDocsPattern(t *testing.T) {
	for _, tt := range []struct {
		page, printed string
		want          bool
	}{
		{"a\nb…\n", "a\nbc\n", true},
		{"a\n", "a\nb\n", false},
		{"…\nb\n", "x\ny\nb\n", true},
		{"a\n…\n", "a\n", true},
		{"a.\n", "ab\n", false},
	} {
		if got := docsPattern(tt.page).MatchString(tt.printed); got != tt.want {
			t.Errorf("%q for %q is %v", tt.page, tt.printed, got)
		}
	}
}

// freePorts finds a free port for each of docsPorts, and returns what puts them
// in the place of those and back. They lie below the ports that the system gives
// away itself, so that no connection takes one before the page's node does.
func freePorts(t *testing.T) (toFree, toDocs *strings.Replacer) {
	t.Helper()
	var there, back []string
	for _, port := range docsPorts {
		for tries := 0; ; tries++ {
			free := strconv.Itoa(20000 + rand.IntN(12000))
			l, err := net.Listen("tcp", "127.0.0.1:"+free)
			if err != nil {
				if tries < 100 {
					continue
				}
				t.Fatal(err)
			}
			defer l.Close()                             // all at once, so that no port is found twice
			for _, before := range []string{":", "/"} { // host:port and /tcp/port: an address of content has neither
				there, back = append(there, before+port, before+free), append(back, before+free, before+port)
			}
			break
		}
	}
	return strings.NewReplacer(there...), strings.NewReplacer(back...)
}

// TestDocsCommands looks up every command, flag and configuration key that the
// pages name.
func TestDocsCommands(t *testing.T) {
	known := docsKeys(t)
	for _, page := range docsPages(t) {
		for _, b := range blocksOf(t, page) {
			for _, err := range checkBlock(b, known) {
				t.Errorf("%s: %v", b, err)
			}
		}
		if strings.HasPrefix(page, "docs/adr/") {
			continue // says what was at the time
		}
		src, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			for _, m := range keyInProse.FindAllStringSubmatch(line, -1) {
				if !isKey(known, m[1]) {
					t.Errorf("%s:%d: %q is neither a configuration key nor a limit", page, i+1, m[1])
				}
			}
		}
	}
}

// keyInProse finds words such as `dht.alpha` or `store.max_bytes = 0`.
var keyInProse = regexp.MustCompile("`((?:node|amnesia|listen|session|gossip|announce|object|dht|" +
	"resolver|store|gateway|edge|" +
	"admin|audit|log|trace)(?:\\.[a-z0-9_]+)+)(?: = [^`]*)?`")

// isKey reports whether a key is known, or one of a table by name such as edge.packs.city.file.
func isKey(known map[string]bool, key string) bool {
	e, err := config.Loaded{}.Explain(key)
	return known[key] || err == nil && e.Source != config.FromFixed
}

// docsKeys are the configuration keys, their tables, and the limits.
func docsKeys(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Name] = true
		for i, c := range k.Name {
			if c == '.' {
				known[k.Name[:i]] = true
			}
		}
	}
	limits, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "queues.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(limits), -1) {
		known[m[1]] = true
	}
	metrics, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(metrics), -1) {
		known["metric "+m[1]] = true
	}
	return known
}

// metricInQuery finds the metrics of a PromQL expression: words with an
// underscore that are no function, and not of other packages.
var (
	metricInQuery = regexp.MustCompile(`[a-z0-9]+(?:_[a-z0-9]+)+`)
	foreignMetric = regexp.MustCompile(`^(histogram_quantile|(process|go|libp2p)_.*)$`)
)

// checkBlock says what of a block does not exist.
func checkBlock(b docsBlock, known map[string]bool) (errs []error) {
	lang := ""
	if len(b.info) > 0 {
		lang = b.info[0]
	}
	switch lang {
	case "toml":
		table := ""
		for _, line := range strings.Split(b.text, "\n") {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, "["); ok {
				table = strings.TrimRight(strings.SplitN(name, "]", 2)[0], "]") + "."
			} else if key, _, ok := strings.Cut(strings.TrimPrefix(line, "# "), " = "); ok &&
				!strings.Contains(key, " ") &&
				!isKey(known, table+key) {
				errs = append(errs, fmt.Errorf("there is no key %q", table+key))
			}
		}
	case "promql":
		for _, line := range strings.Split(b.text, "\n") {
			for _, name := range metricInQuery.FindAllString(strings.SplitN(line, "#", 2)[0], -1) {
				base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
				if !foreignMetric.MatchString(name) && !known["metric "+name] && !known["metric "+base] {
					errs = append(errs, fmt.Errorf("there is no metric %s", name))
				}
			}
		}
	case "sh":
		if reason := b.value("check"); !slices.Contains(b.info, "run") && notRun[reason] == "" {
			errs = append(errs, errors.New("the block is neither `run` nor has a known reason, `check=…`"))
		}
		for _, line := range strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
			for _, m := range alliumCommand.FindAllStringSubmatch(strings.SplitN(line, " # ", 2)[0], -1) {
				if err := checkCommand(strings.Fields(m[1])); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", strings.TrimSpace(m[0]), err))
				}
			}
		}
	}
	return errs
}

// alliumCommand finds calls of allium where a shell command begins.
var alliumCommand = regexp.MustCompile(`(?:^|[|&;(]|sudo |time |-u allium )` +
	`\s*(?:bin/|/usr/local/bin/)?allium((?: [^|&;()<>]*)?)`)

// checkCommand says what of a command line no command or flag is.
func checkCommand(words []string) error {
	cmd := rootCommand(cli.New())
	cmd.InitDefaultCompletionCmd()
	cmd.InitDefaultHelpCmd()
	for i := 0; i < len(words); i++ {
		word := words[i]
		name, isFlag := strings.CutPrefix(word, "--")
		cmd.InitDefaultHelpFlag() // which gives it its persistent flags, too
		switch {
		case isFlag && name != "":
			name, _, withValue := strings.Cut(name, "=")
			f := cmd.Flags().Lookup(name)
			if f == nil {
				f = cmd.InheritedFlags().Lookup(name)
			}
			if f == nil {
				return fmt.Errorf("there is no flag --%s", name)
			}
			if f.NoOptDefVal == "" && !withValue {
				i++
			}
		case strings.HasPrefix(word, "-") && len(word) == 2:
			f := cmd.Flags().ShorthandLookup(word[1:])
			if f == nil {
				f = cmd.InheritedFlags().ShorthandLookup(word[1:])
			}
			if f == nil {
				return fmt.Errorf("there is no flag %s", word)
			}
			if f.NoOptDefVal == "" {
				i++
			}
		case cmd.HasSubCommands():
			at := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
			if at < 0 {
				return fmt.Errorf("there is no command %q", word)
			}
			cmd = cmd.Commands()[at]
		}
	}
	return nil
}

func TestDocsCommandsBite(t *testing.T) {
	known := map[string]bool{"a.b": true, "metric a_seconds": true}
	for text, want := range map[string]string{
		"sh run|allium --home x add --label y file":   "",
		"sh run|x=$(allium add -q file) && allium ls": "",
		"sh run|allium add --nothing":                 "no flag --nothing",
		"sh run|true && allium pin nothing":           "no command",
		"sh run|allium get -z":                        "no flag -z",
		"sh|true":                                     "neither",
		"sh check=because|true":                       "neither",
		"toml|[a]\nb = 1 # c = 2":                     "",
		"promql|rate(a_seconds_count[5m]) # of x_y":   "",
		"promql|rate(b_seconds_count[5m])":            "no metric b_seconds_count",
		"toml|[a]\nc = 1":                             `no key "a.c"`,
	} {
		info, body, _ := strings.Cut(text, "|")
		err := errors.Join(checkBlock(docsBlock{info: strings.Fields(info), text: body}, known)...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
