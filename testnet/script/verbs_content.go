package script

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

func contentVerbs() []Verb {
	return []Verb{
		{
			Op: Add, fails: true, within: true, Usage: "add NODE NAME tree|file SIZE · " +
				"! add NODE NAME tree|file SIZE OUTCOME|any",
			Doc: "Add generated content on a node and call it NAME. The same name on another node is the same " +
				"content.",
			Shell: []string{"add 1 a tree 1MiB"},
			read: func(w *words, s *Step) {
				s.Nodes, s.Name = w.node(), w.name()
				switch n := w.next("tree or file"); n.text {
				case "tree":
					s.Tree = true
				case "file":
				default:
					w.fail(n.column, "%q is not a kind of content; expected tree or file", n.text)
				}
				s.Bytes = w.bytes("a size", 1, MaxSize)
			},
			write: func(s Step) []string {
				kind := "file"
				if s.Tree {
					kind = "tree"
				}
				return []string{s.Nodes.String(), s.Name, kind, size(s.Bytes)}
			},
		},
		{
			Op: Get, fails: true, within: true, Usage: "get NODE NAME [within TIME] · " +
				"! get NODE NAME OUTCOME|any [within TIME]",
			Doc: "Fetch content on a node and compare every byte. The step is tried again until it succeeds or, " +
				"with !, until it fails with the outcome.",
			Shell: []string{"get 3 a within 10s", "! get 3 a not_found"},
			read:  readContent, write: writeContent,
		},
		{
			Op: Pin, Usage: "pin NODE NAME [rf COPIES]",
			Doc: "Pin content on a node, recursively. With rf the nodes of a " +
				"cluster keep so many copies, that of the node included.",
			Shell: []string{"pin 3 a", "pin 1 a rf 3"},
			read: func(w *words, s *Step) {
				if readContent(w, s); w.take("rf") {
					s.Count = w.whole("a number of copies", MaxNodes)
				}
			},
			write: func(s Step) []string {
				if s.Count > 0 {
					return append(writeContent(s), "rf", strconv.Itoa(s.Count))
				}
				return writeContent(s)
			},
		},
		{
			Op: Unpin, Usage: "unpin NODE NAME",
			Doc: "Remove all pins of content on a node, that of add too. The content is " +
				"cache then.",
			Shell: []string{"unpin 1 a"}, read: readContent, write: writeContent,
		},
		{
			Op: GC, Usage: "gc NODES", Doc: "Remove all cache of nodes: everything that no pin leads to.",
			Shell: []string{"gc 3"},
			read:  func(w *words, s *Step) { s.Nodes = w.nodes() },
			write: func(s Step) []string { return []string{s.Nodes.String()} },
		},
		{
			Op: Evacuate, fails: true, within: true, Usage: "evacuate NODE [within TIME] · " +
				"! evacuate NODE OUTCOME|any [within TIME]",
			Doc: "Have a node of a cluster hand its copies over, and wait until none is needed there. It runs on, " +
				"and gets no more.",
			Shell: []string{"evacuate 4"},
			read:  func(w *words, s *Step) { s.Nodes = w.node() },
			write: func(s Step) []string { return []string{s.Nodes.String()} },
		},
		{
			Op: Announce, within: true, Usage: "announce NODE NAME",
			Doc:   "Tell the network that a node provides content.",
			Shell: []string{"announce 3 a"}, read: readContent, write: writeContent,
		},
		{
			Op: Publish, fails: true, within: true, Usage: "publish NODE LABEL NAME [within TIME] · " +
				"! publish NODE LABEL NAME OUTCOME|any [within TIME]",
			Doc: "Publish on a node that LABEL stands for the content NAME. All nodes publish in one zone, the " +
				"network's. The step succeeds when a peer has taken the record. Caches may keep it for 5 s.",
			Shell: []string{"publish 1 site a"},
			read: func(w *words, s *Step) {
				readNamed(w, s)
				s.Name = w.name()
			},
			write: func(s Step) []string { return []string{s.Nodes.String(), s.Label, s.Name} },
		},
		{
			Op: Resolve, fails: true, within: true, Usage: "resolve NODE LABEL [within TIME] · " +
				"! resolve NODE LABEL OUTCOME|any [within TIME]",
			Doc: "Ask the network for the name LABEL from a node, which uses neither its caches nor the records " +
				"that it holds. The step is tried again like get.",
			Shell: []string{"resolve 3 site within 10s", "! resolve 3 site not_found"},
			read:  readNamed,
			write: func(s Step) []string { return []string{s.Nodes.String(), s.Label} },
		},
		{
			Op: Flood, Usage: "flood NODE TARGET REQUESTS",
			Doc: "Send pings from one node to another as fast as possible, 64 at a time. Refused and unanswered ones " +
				"count as sent.",
			Shell: []string{"flood 4 1 5000 &"},
			read: func(w *words, s *Step) {
				s.Nodes = w.node()
				at := w.peek().column
				if s.Target = w.node()[0]; s.Target == s.Nodes[0] {
					w.fail(at, "a node does not flood itself; name another")
				}
				s.Count = w.whole("a number of requests", MaxFlood)
			},
			write: func(s Step) []string {
				return []string{s.Nodes.String(), strconv.Itoa(s.Target), strconv.Itoa(s.Count)}
			},
		},
	}
}

func readNamed(w *words, s *Step) { s.Nodes, s.Label = w.node(), w.label() }

func readContent(w *words, s *Step) { s.Nodes, s.Name = w.node(), w.name() }

func writeContent(s Step) []string { return []string{s.Nodes.String(), s.Name} }

func flowVerbs() []Verb {
	return []Verb{
		{
			Op: Expect, within: true,
			Usage: "expect ready NODES · expect not-ready NODES [GATE] · expect peers NODES >= N · " +
				"expect providers NODE NAME >= N · expect metric NODES NAME{labels} >= N · " +
				"expect has NODES NAME · expect lacks NODES NAME · expect name NODES LABEL NAME · " +
				"expect durability NODE NAME observed >= N · expect whole NAME",
			Doc: "Wait until the condition is true on each of the nodes. Operators are >= <= > < == !=. A node has " +
				"content when its store has the whole object of the address; for a tree, that is the directory. " +
				"A name is asked for as users do it, caches included. Copies of a tree are those of its part with " +
				"the fewest. Content is whole when a node that has not got it can read every byte, or each node that " +
				"runs if all have it.",
			Shell: []string{"expect ready all", "expect not-ready 4 store_space within 5s",
				`expect metric 1 'rejected_total{reason="busy"} >= 1'`},
			read: readExpect, write: writeExpect,
		},
		{
			Op: Wait, Usage: "wait TIME", Doc: "Do nothing for a while.",
			Shell: []string{"wait 2s"},
			read:  func(w *words, s *Step) { s.Time = w.length("a time", MaxWait) },
			write: func(s Step) []string { return []string{duration(s.Time)} },
		},
		{
			Op: Join, Usage: "join",
			Doc: "Wait for the steps that a final & put into the background. The end of a file " +
				"waits too.",
			Shell: []string{"join"},
			read:  func(*words, *Step) {},
			write: func(Step) []string { return nil },
		},
	}
}

func readExpect(w *words, s *Step) {
	kinds := []Kind{Ready, NotReady, Peers, Providers, Metric, Has, Lacks, Named, Durability, Whole}
	n := w.next("what to expect: ready, not-ready, peers, providers, metric, has, lacks, name, durability or whole")
	c := &s.Condition
	if c.Kind = Kind(n.text); !slices.Contains(kinds, c.Kind) {
		w.fail(n.column,
			"%q cannot be expected; expected ready, not-ready, peers, providers, metric, has, lacks, name, "+
				"durability or whole", n.text)
	}
	if c.Kind == Whole {
		s.Name = w.name()
		return
	}
	if c.Kind == Providers || c.Kind == Durability {
		s.Nodes = w.node()
	} else {
		s.Nodes = w.nodes()
	}
	switch c.Kind {
	case NotReady:
		if g := w.peek(); g.text != "" && g.text != "within" && g.text != "&" {
			w.next("")
			if c.Gate = g.text; !gateForm().MatchString(c.Gate) {
				w.fail(g.column, "%q is not the name of a gate, such as bootstrap or store_space", g.text)
			}
		}
	case Peers:
		w.compare(c)
	case Providers:
		s.Name = w.name()
		w.compare(c)
	case Durability:
		s.Name = w.name()
		if n := w.next("observed"); n.text != "observed" {
			w.fail(n.column, "%q is not what can be counted; expected observed", n.text)
		}
		w.compare(c)
	case Metric:
		w.series(c)
		w.compare(c)
	case Has, Lacks:
		s.Name = w.name()
	case Named:
		s.Label, s.Name = w.label(), w.name()
	}
}

func writeExpect(s Step) []string {
	c := s.Condition
	if c.Kind == Whole {
		return []string{string(c.Kind), s.Name}
	}
	out := []string{string(c.Kind), s.Nodes.String()}
	switch c.Kind {
	case NotReady:
		return append(out, c.Gate)
	case Peers:
		return append(out, c.Cmp, number(c.Value))
	case Providers:
		return append(out, s.Name, c.Cmp, number(c.Value))
	case Durability:
		return append(out, s.Name, "observed", c.Cmp, number(c.Value))
	case Metric:
		return append(out, c.Series(), c.Cmp, number(c.Value))
	case Has, Lacks:
		return append(out, s.Name)
	case Named:
		return append(out, s.Label, s.Name)
	}
	return out
}

func headVerbs() []Verb {
	return []Verb{
		{
			Op: SetNodes, Head: true, Usage: "nodes N", Doc: "How many nodes the network has; every file says so.",
			read:  func(w *words, s *Step) { s.Count = w.whole("a number of nodes", MaxNodes) },
			write: func(s Step) []string { return []string{strconv.Itoa(s.Count)} },
		},
		{
			Op: SetSeed, Head: true, Usage: "seed N",
			Doc: "Of the identities of the nodes and the generated content (default 1).",
			read: func(w *words, s *Step) {
				n := w.next("a number")
				v, err := strconv.ParseUint(n.text, 10, 64)
				if err != nil {
					w.fail(n.column, "%q is not a seed; expected a number from 0 to 2^64 - 1", n.text)
				}
				s.Seed = v
			},
			write: func(s Step) []string { return []string{strconv.FormatUint(s.Seed, 10)} },
		},
		{
			Op: SetCluster, Head: true, Usage: "cluster",
			Doc:   "The nodes have a common key, so that they keep copies for each other.",
			read:  func(*words, *Step) {},
			write: func(Step) []string { return nil },
		},
		{
			Op: SetDeadline, Head: true, Usage: "deadline TIME",
			Doc:   "Bounds the whole file, the start of the network included (default 3m, at most 1h).",
			read:  func(w *words, s *Step) { s.Time = w.length("a time", time.Hour) },
			write: func(s Step) []string { return []string{duration(s.Time)} },
		},
		{
			Op: SetWithin, Head: true, Usage: "within TIME",
			Doc:   "How long a step waits that sets no time itself (default 30s).",
			read:  func(w *words, s *Step) { s.Time = w.length("a time", MaxWait) },
			write: func(s Step) []string { return []string{duration(s.Time)} },
		},
	}
}

// verbList lists the verbs of the head of a file, or those of steps.
func verbList(head bool) string {
	var names []string
	for _, v := range Verbs() {
		if v.Head == head {
			names = append(names, string(v.Op))
		}
	}
	return strings.Join(names, ", ")
}
