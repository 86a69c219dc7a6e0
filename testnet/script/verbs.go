package script

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verb describes one verb: its grammar, its documentation, and how a step with it is
// read and written.
type Verb struct {
	Op    Op
	Chaos bool     // `allium testnet chaos` accepts the verb
	Head  bool     // the verb is allowed only before the first step of a file
	Usage string   // all forms of the line
	Doc   string   // what the step does, in a sentence or two
	Shell []string // examples, quoted for a shell

	within bool                // the step may wait, so "within" may follow
	fails  bool                // "!" may precede the verb
	read   func(*words, *Step) // reads the words after the verb
	write  func(Step) []string // returns the words after the verb; empty ones are left out
}

// Verbs returns all verbs in the order of the documentation.
func Verbs() []Verb {
	return slices.Concat(chaosVerbs(), contentVerbs(), flowVerbs(), headVerbs())
}

func find(op Op) (Verb, bool) {
	for _, v := range Verbs() {
		if v.Op == op {
			return v, true
		}
	}
	return Verb{}, false
}

// offOr returns "off" for a step that undoes a fault, otherwise words.
func offOr(s Step, words ...string) []string {
	if s.Off {
		return []string{"off"}
	}
	return words
}

func chaosVerbs() []Verb {
	return []Verb{
		{
			Op: Kill, Chaos: true, Usage: "kill NODES",
			Doc: "End nodes at once. A process gets SIGKILL. Nodes in one process lose their connections first, " +
				"so that no peer receives a GOAWAY, and then stop.",
			Shell: []string{"kill 3", "kill 2,4"},
			read:  func(w *words, s *Step) { s.Nodes = w.nodes() },
			write: func(s Step) []string { return []string{s.Nodes.String()} },
		},
		{
			Op: Restart, Chaos: true, Usage: "restart NODES",
			Doc: "Start nodes again with their homes, identities and, if still free, their ports. " +
				"A node that runs is killed first. Undoes kill.",
			Shell: []string{"restart 3"},
			read:  func(w *words, s *Step) { s.Nodes = w.nodes() },
			write: func(s Step) []string { return []string{s.Nodes.String()} },
		},
		{
			Op: Partition, Chaos: true, Usage: "partition NODES | NODES [| NODES…] · partition NODES · partition off",
			Doc: "Drop all packets between the groups. A single group is cut off from all other nodes. With several " +
				"groups, a node in none of them keeps its links. In a shell, write / for |.",
			Shell: []string{"partition '1,2 | 3-5'", "partition 4"},
			read:  readPartition,
			write: func(s Step) []string {
				groups := make([]string, len(s.Groups))
				for i, g := range s.Groups {
					groups[i] = g.String()
				}
				return offOr(s, strings.Join(groups, " | "))
			},
		},
		{
			Op: Heal, Chaos: true, Usage: "heal [NODES]",
			Doc:   "Undo every fault, or the faults of some nodes and their links. Killed nodes stay dead.",
			Shell: []string{"heal", "heal 3"},
			read: func(w *words, s *Step) {
				if len(w.list) > 0 {
					s.Nodes = w.nodes()
				}
			},
			write: func(s Step) []string { return []string{s.Nodes.String()} },
		},
		{
			Op: Latency, Chaos: true, Usage: "latency DELAY [±JITTER] [[NODES]] · latency off [[NODES]]",
			Doc: "Delay packets on links, each way. [2-4] are the links of these nodes, [1:3,4] the links " +
				"between two sets of nodes; without brackets all links are meant.",
			Shell: []string{"latency 50ms", "latency 50ms ±10ms '[2-4]'", "latency off '[3]'"},
			read: func(w *words, s *Step) {
				if s.Off = w.take("off"); !s.Off {
					s.Delay = w.length("a delay", MaxDelay)
					if n := w.peek(); strings.HasPrefix(n.text, "±") || strings.HasPrefix(n.text, "+-") {
						w.next("")
						s.Jitter = w.parseLength(strings.TrimPrefix(strings.TrimPrefix(n.text, "±"), "+-"), n.column,
							"a jitter",
							min(s.Delay, MaxJitter))
					}
				}
				s.Links = w.links()
			},
			write: func(s Step) []string {
				jitter := ""
				if s.Jitter > 0 {
					jitter = "±" + duration(s.Jitter)
				}
				return append(offOr(s, duration(s.Delay), jitter), s.Links.String())
			},
		},
		{
			Op: Loss, Chaos: true, Usage: "loss PERCENT% [[NODES]] · loss off [[NODES]]",
			Doc:   "Drop a share of the packets on links. TCP sends a lost packet again, so there it costs time.",
			Shell: []string{"loss 5% '[1,2]'", "loss off"},
			read:  readLoss,
			write: func(s Step) []string {
				return append(offOr(s, number(s.Percent)+"%"), s.Links.String())
			},
		},
		{
			Op: Slow, Chaos: true, Usage: "slow NODES RATE/s · slow NODES off",
			Doc:   "Bound the rate at which nodes send, to all peers together.",
			Shell: []string{"slow 3 256KiB/s", "slow 3 off"},
			read:  readSlow,
			write: func(s Step) []string {
				return append([]string{s.Nodes.String()}, offOr(s, size(s.Bytes)+"/s")...)
			},
		},
		{
			Op: Corrupt, Chaos: true, Usage: "corrupt NODES [off]",
			Doc:   "Make nodes serve objects with a flipped byte, and old or forged records of names.",
			Shell: []string{"corrupt 2"},
			read:  readSwitch, write: writeSwitch,
		},
		{
			Op: FullDisk, Chaos: true, Usage: "full-disk NODES [off]",
			Doc:   "Make the stores of nodes see a disk without free space.",
			Shell: []string{"full-disk 4", "full-disk 4 off"},
			read:  readSwitch, write: writeSwitch,
		},
		{
			Op: ClockSkew, Chaos: true, Usage: "clock-skew NODES ±TIME · clock-skew NODES off",
			Doc:   "Move the clocks of nodes ahead (+) or behind (-), for the signatures that they make and check.",
			Shell: []string{"clock-skew 5 +48h", "clock-skew 5 off"},
			read:  readSkew,
			write: func(s Step) []string {
				sign := "+"
				if s.Skew < 0 {
					sign = ""
				}
				return append([]string{s.Nodes.String()}, offOr(s, sign+duration(s.Skew))...)
			},
		},
	}
}

func readPartition(w *words, s *Step) {
	if s.Off = w.take("off"); s.Off {
		return
	}
	seen := map[int]bool{}
	for more := true; more; more = w.take("|") || w.take("/") {
		at := w.peek().column
		g := w.nodes()
		if g.Max() == 0 {
			w.fail(at, "all is no group: nobody would be left to be cut off from; name nodes")
		}
		for _, n := range g {
			if seen[n] {
				w.fail(at, "node %d is in two groups", n)
			}
			seen[n] = true
		}
		s.Groups = append(s.Groups, g)
	}
}

func readLoss(w *words, s *Step) {
	if s.Off = w.take("off"); !s.Off {
		n := w.next("a share such as 5%")
		text, ok := strings.CutSuffix(n.text, "%")
		v, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !(v > 0 && v <= 100) {
			w.fail(n.column, "%q is not a share; write more than 0%% and at most 100%%, such as 5%%", n.text)
		}
		s.Percent = v
	}
	s.Links = w.links()
}

func readSlow(w *words, s *Step) {
	s.Nodes = w.nodes()
	if s.Off = w.take("off"); s.Off {
		return
	}
	n := w.next("a rate such as 256KiB/s, or off")
	text, ok := strings.CutSuffix(n.text, "/s")
	if !ok {
		w.fail(n.column, "%q is not a rate; write it as 256KiB/s", n.text)
	}
	w.list = append([]word{{text, n.column}}, w.list...)
	s.Bytes = w.bytes("a rate", MinRate, 1<<40)
}

func readSwitch(w *words, s *Step) {
	s.Nodes = w.nodes()
	s.Off = w.take("off")
}

func writeSwitch(s Step) []string { return append([]string{s.Nodes.String()}, offOr(s)...) }

func readSkew(w *words, s *Step) {
	s.Nodes = w.nodes()
	if s.Off = w.take("off"); s.Off {
		return
	}
	n := w.next("a skew such as +48h or -1h, or off")
	d, err := time.ParseDuration(n.text)
	switch {
	case err != nil || n.text[0] != '+' && n.text[0] != '-':
		w.fail(n.column, "%q is not a skew; write it with a sign, such as +48h or -1h", n.text)
	case d.Truncate(time.Millisecond) != d || d == 0 || d.Abs() > MaxSkew:
		w.fail(n.column, "a skew of %s is outside what there is: whole milliseconds, not 0, at most 9600h", n.text)
	}
	s.Skew = d
}
