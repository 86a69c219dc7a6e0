package doctor

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/lazyregexp"
	"allium/internal/ram"
	"allium/node/config"
	"allium/protocols/status"
)

// Facts holds the content of a bundle, before it is masked. An answer that the node did not give is nil.
type Facts struct {
	Report  Report
	Health  *api.Health
	Version *api.Version // of the node
	Limits  *api.Limits
	Reach   *api.Reach
	Seeds   *api.Seeds
	Peers   []api.Peer
	Metrics []byte // in the text format of Prometheus
}

// WriteBundle writes a gzipped tar for a bug report. It has only what is known to tell nothing of anybody: numbers,
// dates, and words of this program. Every other text (addresses, names, paths, keys, messages) is left out, or is
// replaced by a pseudonym that is the same for the same text within the bundle.
func WriteBundle(w io.Writer, d Deps, f Facts) error {
	m := &mask{names: map[string]string{}}
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	now := d.Now().UTC().Truncate(time.Second)
	for _, part := range []struct {
		name  string
		value any
	}{
		{"README.txt", readme(f)},
		{"doctor.json", maskedReport(m, f.Report)},
		{"version.json", versions(d, f)},
		{"system.json", systemFacts(d)},
		{"config.json", maskedConfig(d.Config)},
		{"health.json", maskedHealth(f.Health)},
		{"limits.json", maskedLimits(f.Limits)},
		{"network.json", maskedNetwork(m, f)},
		{"metrics.txt", maskedMetrics(f.Metrics)},
	} {
		text, isText := part.value.(string)
		p := []byte(text)
		if !isText {
			var err error
			if p, err = json.MarshalIndent(part.value, "", "  "); err != nil {
				return err
			}
			p = append(p, '\n')
		}
		h := &tar.Header{
			Name: "allium-doctor/" + part.name, Mode: 0o600, Size: int64(len(p)), ModTime: now, Format: tar.FormatPAX,
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(p); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// SaveBundle writes a file with what write writes, mode 0600, all of it or nothing. Unless force is set, a file that
// exists is status.Conflict.
func SaveBundle(file string, force bool, write func(io.Writer) error) (err error) {
	exists := status.Errorf(status.Conflict, "%s exists; name another file, or replace it with --force", file)
	if _, err := os.Lstat(file); err == nil && !force {
		return exists
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".bundle-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = temp.Close() // err is the error that matters
			_ = os.Remove(temp.Name())
		}
	}()
	var all bytes.Buffer // some 100 KiB, bounded by what the node may answer
	if err := write(&all); err != nil {
		return err
	}
	_, err = temp.Write(all.Bytes())
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(temp.Name(), file)
	}
	if err := os.Link(temp.Name(), file); errors.Is(err, fs.ErrExist) { // made meanwhile
		return exists
	} else if err != nil { // the file system has no links
		return os.Rename(temp.Name(), file)
	}
	return os.Remove(temp.Name())
}

// readme says what the bundle has.
func readme(f Facts) string {
	text := `What "allium doctor --bundle" knows of a node, for a bug report.

It has numbers, dates and words of the program. Addresses, peer ids, names, labels, paths,
keys, tokens and messages are left out, or replaced by names such as text-3: the same text
has the same name within one bundle.

Not included: the log, because the node keeps none; what the goroutines do, because a node
does not tell that.
`
	if f.Health == nil {
		text += "Not included either: what a running node knows, because none answered.\n"
	}
	return text
}

// mask replaces texts by pseudonyms.
type mask struct{ names map[string]string }

// text returns the pseudonym of a text. An empty text stays empty.
func (m *mask) text(s string) string {
	if s == "" {
		return ""
	}
	if m.names[s] == "" {
		m.names[s] = fmt.Sprintf("text-%d", len(m.names)+1)
	}
	return m.names[s]
}

// said returns evidence with the pseudonyms of its texts.
func (m *mask) said(s saying) string {
	args := make([]any, len(s.args))
	for i, a := range s.args {
		switch v := a.(type) {
		case plain:
			args[i] = string(v)
		case saying:
			args[i] = m.said(v)
		default:
			if args[i] = a; !isNumber(reflect.ValueOf(a)) {
				args[i] = m.text(fmt.Sprint(a))
			}
		}
	}
	return fmt.Sprintf(s.format, args...)
}

// isNumber reports whether a value is a number or a truth.
func isNumber(v reflect.Value) bool {
	return v.IsValid() && (v.CanInt() || v.CanUint() || v.CanFloat() || v.Kind() == reflect.Bool)
}

// maskedReport returns a report without what the fixes name, which may be paths.
func maskedReport(m *mask, r Report) any {
	type found struct {
		Check    string   `json:"check"`
		Severity Severity `json:"severity"`
		Evidence string   `json:"evidence"`
	}
	type skipped struct {
		Check string `json:"check"`
	}
	all := []found{}
	for _, f := range r.Findings {
		all = append(all, found{f.Check, f.Severity, m.said(f.seen)})
	}
	left := []skipped{}
	for _, s := range r.Skipped {
		left = append(left, skipped{s.Check})
	}
	return struct {
		Worst    Severity  `json:"worst"`
		Findings []found   `json:"findings"`
		Passed   []string  `json:"passed"`
		Skipped  []skipped `json:"skipped"`
	}{r.Worst, all, r.Passed, left}
}

func versions(d Deps, f Facts) any {
	told := func(v api.Version) map[string]string {
		return map[string]string{"version": word(v.Version), "commit": word(v.Commit), "go": word(v.Go)}
	}
	all := map[string]any{"command": told(d.Version)}
	if f.Version != nil {
		all["node"] = told(*f.Version)
	}
	return all
}

// systemFacts returns what is known of the machine.
func systemFacts(d Deps) any {
	all := map[string]any{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": runtime.NumCPU(), "open_files": d.Machine.OpenFiles(),
		"cgroup_memory": ram.Cgroup(d.Machine.Root),
	}
	for name, file := range map[string]string{
		"somaxconn": "proc/sys/net/core/somaxconn", "rmem_max": "proc/sys/net/core/rmem_max",
		"wmem_max": "proc/sys/net/core/wmem_max",
	} {
		if n, err := d.Machine.number(file); err == nil {
			all[name] = n
		}
	}
	if info, err := d.Machine.read("proc/meminfo"); err == nil {
		all["memory"], all["memory_available"] = meminfo(info, "MemTotal"), meminfo(info, "MemAvailable")
	}
	if fs, err := d.Machine.Statfs(d.Home); err == nil {
		all["file_system"] = fs
	}
	return all
}

// spoken are the keys of the configuration whose values are words of the program.
var spoken = []string{
	"node.profile", "store.backend", "log.level", "log.format", "dht.announce", "edge.mode",
}

// numbers are the types of the keys whose values are numbers or truths.
var numbers = []string{"duration", "size", "bool", "integer", "number"}

// numeric are such values.
var numeric = lazyregexp.New(`^(?:true|false|-?[0-9.]+[a-zA-Zµ0-9./]{0,16})$`)

// maskedConfig returns the configuration in force. Of texts it says only whether they are set; keys of tables that
// the operator names are left out but for their number.
func maskedConfig(c config.Loaded) any {
	type value struct {
		Key    string        `json:"key"`
		Value  string        `json:"value"`
		Source config.Source `json:"source"`
	}
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Name] = true
	}
	all := []value{}
	named := 0
	for _, v := range c.Values() {
		if !known[v.Name] { // an entry of a table
			named++
			continue
		}
		text := v.Value
		switch {
		case text == "":
		case slices.Contains(spoken, v.Name):
			text = word(text)
		case slices.Contains(numbers, v.Type) && numeric().MatchString(text):
		default:
			text = "(set)"
		}
		all = append(all, value{v.Name, text, v.Source})
	}
	return struct {
		Values []value `json:"values"`
		Named  int     `json:"named"` // keys of tables
	}{all, named}
}

// maskedHealth returns the numbers of a node's health, and its gates without their messages.
func maskedHealth(h *api.Health) any {
	if h == nil {
		return nil
	}
	v := *h
	v.Readiness.Gates = slices.Clone(v.Readiness.Gates)
	for i := range v.Readiness.Gates {
		v.Readiness.Gates[i].Name = word(v.Readiness.Gates[i].Name)
		v.Readiness.Gates[i].Fix = ""
	}
	return v
}

func maskedLimits(l *api.Limits) any {
	type limit struct {
		Name     string `json:"name"`
		Kind     string `json:"kind"`
		Capacity int64  `json:"capacity"`
		Current  int64  `json:"current"`
		Peak     int64  `json:"peak"`
		Rejected int64  `json:"rejected"`
	}
	all := []limit{}
	if l != nil {
		for _, v := range l.Limits {
			all = append(all, limit{word(v.Name), word(v.Kind), v.Capacity, v.Current, v.Peak, v.Rejected})
		}
	}
	return all
}

// maskedNetwork counts addresses, seeds and peers by their kind.
func maskedNetwork(m *mask, f Facts) any {
	counts := map[string]int{}
	all := map[string]any{"counts": counts}
	if f.Reach != nil {
		all["from"] = word(string(f.Reach.From))
		all["nat_udp"], all["nat_tcp"] = word(f.Reach.NAT.UDP), word(f.Reach.NAT.TCP)
		all["confirmers"], all["relays"] = f.Reach.Confirmers, f.Reach.Relays
		for _, a := range f.Reach.Addrs {
			counts[strings.Join([]string{"address", word(string(a.Scope)), word(a.Via), word(string(a.State))}, " ")]++
		}
	}
	for _, p := range f.Peers {
		counts["peer "+word(p.Direction)+" "+word(p.Transport)]++
	}
	if f.Seeds != nil {
		type seed struct {
			ID        string  `json:"id"`
			Connected bool    `json:"connected"`
			Tries     int     `json:"tries"`
			Verdict   Verdict `json:"verdict,omitempty"`
		}
		var seeds []seed
		for _, s := range f.Seeds.Seeds {
			one := seed{ID: m.text(s.ID), Connected: s.Connected, Tries: s.Tries}
			if s.LastError != "" {
				one.Verdict, _ = Classify(errors.New(s.LastError), nil, nil, false)
			}
			seeds = append(seeds, one)
		}
		slices.SortStableFunc(seeds, func(a, b seed) int { return cmp.Compare(a.ID, b.ID) })
		all["seeds"], all["remembered"] = seeds, f.Seeds.Remembered
	}
	return all
}

// sample is a line of metrics: a name, labels, and a number.
var sample = lazyregexp.New(`^([a-z][a-z0-9_]*)(?:\{([^{}]*)\})? ([-+0-9.eE]+|NaN|[-+]Inf)$`)

// closed are labels whose values are words of the program.
var closed = lazyregexp.New(
	`^(?:(?:outcome|reason|op|kind|state|queue|dir|phase|endpoint|task|proto|quantile)="[a-z0-9_.]*",?)+$`)

// maskedMetrics keeps the samples whose labels have values of a closed list, and those without labels.
func maskedMetrics(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := sample().FindStringSubmatch(line); m != nil && (m[2] == "" || closed().MatchString(m[2])) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
