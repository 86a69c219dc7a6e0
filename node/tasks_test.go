package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allium/internal/tasks"
	"allium/node/config"
	"allium/node/p2p"
	"allium/store"
)

// TestTasksPage: docs/reference/tasks.md has each service and pool of every kind of node, as that node lists it, and
// no other; each of them runs in some node.
func TestTasksPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "tasks.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{} // by name
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[0], "|` ")] = cells
		}
	}
	// One sends packets to the network, the other is for a process that runs a node alone.
	elsewhere := []string{"lan", "amnesia"}
	started := map[string]bool{}
	for what, change := range map[string]func(*config.Config){
		"disk":    nil,
		"RAM":     func(c *config.Config) { c.Store.Backend = store.BackendMemory },
		"amnesia": func(c *config.Config) { c.Node.Amnesia, c.Store.Backend = true, store.BackendMemory },
		"seed":    func(c *config.Config) { c.Node.Profile, c.Listen.Profile = p2p.Seed, p2p.Seed },
		"audit":   func(c *config.Config) { c.Audit.Enabled = true },
		"traces":  func(c *config.Config) { c.Trace.Endpoint, c.Trace.Ratio = "http://127.0.0.1:1", 0 },
	} {
		n := start(t, change)
		list := n.Tasks()
		if len(list) != len(rows) {
			t.Errorf("%s: %d tasks, the page has %d", what, len(list), len(rows))
		}
		running := 0.0
		for _, i := range list {
			row := rows[i.Name]
			if row == nil || row[1] != "`"+i.Owner+"`" || !slices.Contains(row, i.Doc) {
				t.Errorf("%s: %+v, the page has %q", what, i, row)
				continue
			}
			if i.Kind == tasks.Service && i.Fatal != (row[4] == "yes") {
				t.Errorf("%s: fatal is %v, the page has %q", what, i.Fatal, row)
			}
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(i.Owner))); err != nil {
				t.Errorf("%s: the package of %s: %v", what, i.Name, err)
			}
			if i.Started {
				started[i.Name] = true
				if i.Kind == tasks.Service {
					running++
				}
			}
		}
		if n := metric(t, n, `tasks_spawned_total{kind="service"}`); float64(n) != running {
			t.Errorf("%s: %d services were spawned, %v are listed", what, n, running)
		}
	}
	for name := range rows {
		if !started[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("no node has started %s", name)
		}
	}
}
