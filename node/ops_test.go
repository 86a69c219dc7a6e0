package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/node"
)

// opsDir holds what operators load into other programs.
var opsDir = filepath.Join("..", "docs", "ops")

// promtool returns the path of promtool, without which t is skipped.
func promtool(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("another program works")
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		const why = "no promtool in PATH (Debian has it in prometheus): whether Prometheus reads the alert rules and the " +
			"queries of the dashboard is not tested here"
		testkit.Missing(t, why)
	}
	return path
}

// TestDashboardByPromtool: Prometheus reads each query of the dashboard.
func TestDashboardByPromtool(t *testing.T) {
	program := promtool(t)
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	page := opsFile(t, filepath.Join("..", "reference", "dashboard.json"))
	if err := json.Unmarshal([]byte(page), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	var rules []map[string]string
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			rules = append(rules, map[string]string{
				"record": fmt.Sprintf("allium:query_%d", len(rules)), "expr": variables.Replace(q.Expr),
			})
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil || len(rules) < 30 {
		t.Fatal(len(rules), err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml") // JSON is YAML
	write(t, file, text)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAlertRulesByPromtool checks docs/ops/alerts.yml and runs its unit tests.
func TestAlertRulesByPromtool(t *testing.T) {
	program := promtool(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"},
		{"test", "rules", "alerts_days_test.yml"}} {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = opsDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestAlertRules checks what promtool cannot: that the metrics exist, that the
// runbook has the section, and that each alert is tested both ways.
func TestAlertRules(t *testing.T) {
	alerts := readAlerts(opsFile(t, "alerts.yml"))
	if len(alerts) == 0 {
		t.Fatal("alerts.yml has no alerts")
	}
	lists, err := node.Reference(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]bool{}
	for _, m := range lists.Metrics {
		registered[m.Name] = true
	}
	tests := opsFile(t, "alerts_test.yml") + opsFile(t, "alerts_days_test.yml")
	sections := headings(opsFile(t, filepath.Join("..", "running", "alerts.md")))

	for _, a := range alerts {
		names := metricNames(a.expr)
		if len(names) == 0 {
			t.Errorf("%s uses no metric: %s", a.name, a.expr)
		}
		for _, name := range names {
			if !registered[name] && !registered[histogramSuffix.ReplaceAllString(name, "")] {
				t.Errorf("%s uses %s, which no node has", a.name, name)
			}
		}
		for _, key := range []string{"severity", "summary", "description", "runbook_url"} {
			if a.keys[key] == "" {
				t.Errorf("%s has no %s", a.name, key)
			}
		}
		if page, anchor, _ := strings.Cut(a.keys["runbook_url"], "#"); page != "docs/running/alerts.md" ||
			!slices.Contains(sections, anchor) {
			t.Errorf("%s: docs/running/alerts.md has no section for %q", a.name, a.keys["runbook_url"])
		}
		for what, pattern := range map[string]string{
			"fires":        `exp_alerts:\n`,
			"stays silent": `exp_alerts: \[\]\n`,
		} {
			if !regexp.MustCompile(`alertname: ` + a.name + `\n\s+` + pattern).MatchString(tests) {
				t.Errorf("the tests of alerts.yml have no case in which %s %s", a.name, what)
			}
		}
	}
}

// TestMetricNames proves the reader of expressions.
func TestMetricNames(t *testing.T) {
	for expr, want := range map[string][]string{
		`a_seconds > 12 * 3600`: {"a_seconds"},
		`histogram_quantile(0.95, sum by (job, le) (rate(a_bucket{op="b_total"}[10m]))) > 4`: {"a_bucket"},
		`a < 0.5 and on (job, instance) b >= 1e3`:                                            {"a", "b"},
		`sum(increase(a_total[5m] offset 1h)) without (x) unless ignoring (y) b:c > time()`:  {"a_total", "b:c"},
	} {
		if got := metricNames(expr); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", expr, got, want)
		}
	}
}

func opsFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(opsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// alert is one rule of alerts.yml.
type alert struct {
	name string
	expr string
	keys map[string]string // labels and annotations that have a value on their line
}

// readAlerts reads the YAML that alerts.yml is written in: "key: value", and
// "expr: |" with the lines below that are indented more.
func readAlerts(text string) (alerts []alert) {
	indent := 0 // of the block of an expr; 0: outside of one
	for _, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if indent > 0 && depth > indent {
			alerts[len(alerts)-1].expr += " " + trimmed
			continue
		}
		indent = 0
		key, value, ok := strings.Cut(trimmed, ": ")
		switch {
		case !ok || strings.HasPrefix(trimmed, "#"):
		case key == "- alert":
			alerts = append(alerts, alert{name: value, keys: map[string]string{}})
		case len(alerts) == 0:
		case key == "expr" && value == "|":
			indent = depth
		case key == "expr":
			alerts[len(alerts)-1].expr = value
		default:
			alerts[len(alerts)-1].keys[key] = value
		}
	}
	return alerts
}

var (
	// A histogram is read by the names of its series.
	histogramSuffix = regexp.MustCompile(`_(bucket|count|sum)$`)
	// What is not an expression of its own: strings, matchers, ranges, lists of labels.
	notMetrics = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|` +
		`\b(by|without|on|ignoring|group_left|group_right) *\([^)]*\)|\boffset +\w+`)
	// A word, and the bracket that makes it a function.
	word     = regexp.MustCompile(`[a-zA-Z_:][\w:]* *\(?|[\d.]+(e\d+)?`)
	keywords = []string{"and", "or", "unless", "bool"}
)

// metricNames lists the metrics of a PromQL expression in their order, each
// once.
func metricNames(expr string) (names []string) {
	for _, w := range word.FindAllString(notMetrics.ReplaceAllString(expr, " "), -1) {
		w = strings.TrimSpace(w)
		if strings.HasSuffix(w, "(") || w[0] >= '0' && w[0] <= '9' || slices.Contains(keywords, w) ||
			slices.Contains(names, w) {
			continue
		}
		names = append(names, w)
	}
	return names
}

// headings lists the anchors of a Markdown page's headings.
func headings(page string) (anchors []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		kept := regexp.MustCompile(`[^\p{L}\d -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(kept, " ", "-"))
	}
	return anchors
}
