// Package reference renders the pages of docs/reference from the code: the command
// line, configuration, limits, metrics, outcomes and HTTP.
//
// Pages asks package node for what it declares, walks the tree of commands with
// writeCommand, and returns each page as Markdown (openapi.json and dashboard.json as JSON). It reads
// no file and writes none. A test compares the pages with those in the repository.
package reference

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"allium/internal/tasks"
	"allium/node"
	"allium/node/config"
	"allium/protocols/status"
)

// Pages renders every page, by file name. root is the tree of commands.
func Pages(ctx context.Context, root *cobra.Command) (map[string][]byte, error) {
	lists, err := node.Reference(ctx)
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{"cli.md": cliPage(root), "config.md": configPage(), "status.md": statusPage()}

	var b bytes.Buffer
	heading(&b, "Queues and limits", "Everything in a node that is bounded, with its default capacity on a machine of "+
		"two cores and what happens when it is full. `allium limits`, and `/limits` of the admin listener, show the "+
		"same list of a running node, with what is in use.")
	table(&b, "name", "kind", "capacity", "path", "when full")
	for _, l := range lists.Limits {
		capacity := fmt.Sprint(l.Capacity)
		if l.Each != "" {
			capacity += " each " + l.Each
		}
		table(&b, "`"+l.Name+"`", string(l.Kind), capacity, l.Path, l.Policy)
	}
	pages["queues.md"] = b.Bytes()

	b = bytes.Buffer{}
	heading(&b, "Metrics", "What `/metrics` of the admin listener shows, beside the metrics of the Go runtime "+
		"(`go_`, `process_`) and of libp2p (`libp2p_`).")
	table(&b, "name", "labels", "what")
	for _, m := range lists.Metrics {
		table(&b, "`"+m.Name+"`", strings.Join(m.Labels, ", "), m.Help)
	}
	pages["metrics.md"], pages["tasks.md"] = b.Bytes(), tasksPage(lists.Tasks)
	if pages["dashboard.json"], err = dashboard(lists.Metrics); err != nil {
		return nil, err
	}

	openapi, routes, err := node.HTTPReference()
	if err != nil {
		return nil, err
	}
	b = bytes.Buffer{}
	heading(&b, "HTTP", "What the public and the admin listener answer. [openapi.json](openapi.json) says the same to "+
		"programs, with every schema, and each listener serves its part of it as `/openapi.json`. What an error "+
		"means is in [status.md](status.md), how to use it all in [http.md](../http.md).")
	b.Write(routes)
	pages["openapi.json"], pages["http.md"] = openapi, b.Bytes()
	return pages, nil
}

// tasksPage lists the services and the pools of workers.
func tasksPage(list []tasks.Info) []byte {
	var b bytes.Buffer
	heading(&b, "Services and workers", "What runs in a node for as long as it runs, with the package that owns it, "+
		"and what happens when it fails. Each service has a goroutine that node/supervise waits for, and waits itself "+
		"for all that it starts ([lifecycle](../contributing/lifecycle.md)). Numbers are those of a machine of two "+
		"cores. `tasks_spawned_total`, `tasks_canceled_total` and `tasks_aborted_total` count them by kind "+
		"([metrics](metrics.md)), and `service_restarts_total` the restarts of each service.")
	b.WriteString("\n## Services\n")
	table(&b, "name", "package", "what it does", "started", "fatal", "when it fails")
	for _, t := range list {
		if t.Kind == tasks.Service {
			fatal := "no"
			if t.Fatal {
				fatal = "yes"
			}
			table(&b, "`"+t.Name+"`", "`"+t.Owner+"`", t.Doc, cmp.Or(t.When, "always"), fatal, t.Restart)
		}
	}
	b.WriteString("\n## Pools of workers\n\nEach ends with the service that started it, which waits for it. The " +
		"failure of a worker is a panic, as errors are answers.\n")
	table(&b, "name", "package", "workers", "what they do", "when one fails")
	for _, t := range list {
		if t.Kind == tasks.Worker {
			table(&b, "`"+t.Name+"`", "`"+t.Owner+"`", fmt.Sprint(t.Count), t.Doc, t.Restart)
		}
	}
	return b.Bytes()
}

func heading(b *bytes.Buffer, title, text string) {
	fmt.Fprintf(b, "# %s\n\n<!-- written by `make docs`; edit the code instead -->\n\n%s\n", title, text)
}

// table writes one row. The first row after a heading is the head of the table.
func table(b *bytes.Buffer, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	if !strings.HasSuffix(b.String(), "|\n") {
		fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
		return
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func statusPage() []byte {
	var b bytes.Buffer
	heading(&b, "Outcomes",
		"What every error means, on every surface: the code is the OAP status and the HTTP status, "+
			"exit is the exit code of `allium`.")
	table(&b, "outcome", "code", "exit", "does a retry help")
	for _, o := range status.All() {
		table(&b, "`"+o.String()+"`", fmt.Sprint(o.Code()), fmt.Sprint(o.Exit()), o.Retry().String())
	}
	b.WriteString("\n## Refused provider records\n\nWhy a node refuses a record that a peer puts " +
		"(`protocols/oap/SPEC.md`, §13.14): the reason of its answer, with the code of the outcome, and the label of " +
		"`dht_record_rejected_total`.\n")
	table(&b, refusalHead...)
	for _, r := range node.RecordRefusals() {
		refusal(&b, string(r.Refusal), r.Outcome, r.Doc)
	}
	b.WriteString("\n## Refused name records\n\nThe same for the record of a name, and the label of " +
		"`dht_name_rejected_total`. Beside them a holder answers `stale` when it has a newer record, " +
		"`equivocation` when it has another value with the same sequence number, and `quota` when it has no place.\n")
	table(&b, refusalHead...)
	for _, r := range node.NameRefusals() {
		refusal(&b, string(r.Refusal), r.Outcome, r.Doc)
	}
	return b.Bytes()
}

// refusalHead is the head of a table of refusals, and refusal adds a row.
var refusalHead = []string{"reason", "outcome", "code", "what is wrong"}

func refusal(b *bytes.Buffer, reason string, o status.Outcome, doc string) {
	table(b, "`"+reason+"`", "`"+o.String()+"`", fmt.Sprint(o.Code()), doc)
}

func configPage() []byte {
	var b bytes.Buffer
	heading(&b, "Configuration", "Every key of `config.toml`, with the default of the desktop profile. Flags win over "+
		"the environment (`ALLIUM_DHT__ALPHA=5` sets `dht.alpha`), the environment over the file. `allium "+
		"config show` says where a value comes from.\n\n"+
		"`NAME` in a key is a name of your choice: `edge.packs.NAME.file` is the key `file` of a table "+
		"`[edge.packs.city]`. Such a name has 1 to 63 of `a-z`, `0-9`, `-` and `_`, and begins with a letter or a "+
		"digit. The variable `ALLIUM_EDGE__PACKS__CITY__FILE` sets a key of the name `city`. No variable has a name "+
		"with `__`, or with `_` at its end, and most shells set none for a name with `-`: write it into the file.\n\n"+
		"A changed value takes a restart of the node, or only a [reload](../running/reload.md).")
	group := ""
	for _, k := range config.Keys() {
		if k.Group != group {
			fmt.Fprintf(&b, "\n## %s\n", k.Group)
			table(&b, "key", "type", "default", "a change", "what")
			group = k.Group
		}
		change := "restart"
		if config.IsHot(k.Name) {
			change = "reload"
		}
		table(&b, "`"+k.Name+"`", k.Type, "`"+k.Default+"`", change, k.Doc)
	}
	b.WriteString("\n## Fixed\n\nKeys of earlier versions that nothing sets any more. To set one to the value that " +
		"holds is a warning, to set it to another an error.\n")
	table(&b, "key", "type", "value", "why")
	for _, v := range config.Fixed() {
		table(&b, "`"+v.Name+"`", v.Type, "`"+v.Value+"`", v.Doc)
	}
	return b.Bytes()
}

func cliPage(root *cobra.Command) []byte {
	var b bytes.Buffer
	heading(&b, "Command line", "Exit codes are listed in [status.md](status.md).")
	writeCommand(&b, root)
	return b.Bytes()
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	c.InitDefaultHelpFlag() // as it is when the command runs
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n    %s\n", c.CommandPath(), text, c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", c.Example)
	}
	flags := c.NonInheritedFlags()
	if flags.HasAvailableFlags() {
		b.WriteByte('\n')
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			fmt.Fprintf(b, "- `%s`: %s%s\n", name, f.Usage, defaultOf(f))
		})
	}
	commands := c.Commands()
	slices.SortFunc(commands, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
	for _, sub := range commands {
		writeCommand(b, sub)
	}
}

// defaultOf returns the default of a flag, unless it is empty or off.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]":
		return ""
	}
	return fmt.Sprintf(" (default `%s`)", f.DefValue)
}
