package script

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"allium/protocols/status"
)

// canonical is lines and what they are written as.
var canonical = map[string]string{
	"kill 3":                                 "",
	"  kill   3,2,1 # now":                   "kill 1-3",
	"kill all":                               "",
	"restart 1,3":                            "",
	"partition 1,2 | 3,4,5":                  "partition 1,2 | 3-5",
	"partition 1,2|3 / 4":                    "partition 1,2 | 3 | 4",
	"partition off":                          "",
	"heal":                                   "",
	"heal 3 &":                               "",
	"latency 50ms ±10ms [2-4]":               "",
	"latency 50ms +-10ms [2-4]":              "latency 50ms ±10ms [2-4]",
	"latency 1s [1:3,4]":                     "",
	"latency off [3]":                        "",
	"loss 5% [1,2]":                          "",
	"loss 0.5%":                              "",
	"loss off":                               "",
	"slow 3 256KiB/s":                        "",
	"slow 3 2048B/s":                         "slow 3 2KiB/s",
	"slow all off":                           "",
	"corrupt 2":                              "",
	"corrupt 2,3 off":                        "",
	"full-disk 4":                            "",
	"clock-skew 5 +48h":                      "",
	"clock-skew 5 -90m":                      "clock-skew 5 -1h30m",
	"clock-skew 5 off":                       "",
	"add 1 a tree 1MiB":                      "",
	"! add 1 a file 1MiB no_space":           "",
	"get 3 a within 10s":                     "",
	"! get 3 a not_found within 1m30s &":     "",
	"! get 3 a any":                          "",
	"pin 3 a":                                "",
	"pin 1 a rf 3":                           "",
	"unpin 3 a":                              "",
	"expect durability 1 a observed >= 3":    "",
	"expect whole a within 5s":               "",
	"evacuate 1 within 5s":                   "",
	"! evacuate 1 not_ready":                 "",
	"gc all":                                 "",
	"announce 3 a":                           "",
	"flood 4 1 5000 &":                       "",
	"expect ready all":                       "",
	"expect not-ready 3":                     "",
	"expect not-ready 3 bootstrap within 5s": "",
	"expect peers 2,3 >= 3":                  "",
	"expect providers 1 a == 2":              "",
	"expect metric 1 up > 1.5":               "",
	`expect metric 1 q{a="b c",d="#|"} != 0 within 1s`: "",
	"expect has 1 a":                           "",
	"expect lacks 1,2 a":                       "",
	"publish 1 site a":                         "",
	"! publish 1 site-2 a not_ready within 5s": "",
	"resolve 3 site within 10s &":              "",
	"! resolve 3 x any":                        "",
	"expect name 2-4 site a within 5s":         "",
	"wait 2s":                                  "",
	"join":                                     "",
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for line, want := range canonical {
		if want == "" {
			want = line
		}
		s, err := Parse(line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if got := s.String(); got != want {
			t.Errorf("%q is written %q, want %q", line, got, want)
		}
	}
	for _, v := range Verbs() {
		for _, example := range v.Shell {
			if _, err := Parse(strings.ReplaceAll(example, "'", "")); err != nil {
				t.Errorf("the example %q: %v", example, err)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                      "column 1: the line is empty; expected one of kill, restart",
		"   # nothing":                          "the line is empty",
		"kil 3":                                 `column 1: "kil" is not a verb; did you mean "kill"?`,
		"xyz":                                   `"xyz" is not a verb; expected one of kill`,
		"kill":                                  "column 5: the line ends here; expected nodes such as 3",
		"kill x":                                `column 6: "x" is not a node`,
		"kill 0":                                "column 6: there is no node 0",
		"kill 2,201":                            "column 8: there is no node 201",
		"kill 4-2":                              "the range 4-2 runs backwards; write 2-4",
		"kill +3":                               "is not a node",
		"kill 3 4":                              `column 8: "4" is one word too many; usage: kill NODES`,
		"kill 3 within 2s":                      "column 8: kill does not wait",
		"! kill 3":                              "column 3: ! is for add, get, publish and resolve",
		"publish 1 Site a":                      `column 11: "Site" is not a label`,
		"publish 1 site- a":                     `"site-" is not a label`,
		"publish 1 site":                        "expected a name of content",
		"publish 1,2 site a":                    "is more than one node",
		"resolve 1":                             "expected the label of a name",
		"expect name 1 site":                    "expected a name of content",
		"!":                                     "column 2: the line ends here; expected a verb after !",
		"partition 1 | 1,2":                     "column 15: node 1 is in two groups",
		"partition all":                         "all is no group",
		"partition 1 |":                         "the line ends here",
		"latency 50":                            `column 9: "50" is not a delay; write it with its unit`,
		"latency 11s":                           "at most 10s",
		"latency 10ms ±20ms":                    "column 14: a jitter of 20ms is outside",
		"latency 10ms [2":                       "no closing bracket",
		"latency 10ms [2:x]":                    `column 17: "x" is not a node`,
		"loss 5":                                `"5" is not a share`,
		"loss 101%":                             "at most 100%",
		"slow 3 5":                              `"5" is not a rate`,
		"slow 3 5/s":                            "outside what there is: 1KiB to",
		"clock-skew 5 48h":                      "write it with a sign",
		"clock-skew 5 +1us":                     "whole milliseconds",
		"add 1 A tree 1MiB":                     `column 7: "A" is not a name`,
		"add 1 a dir 1MiB":                      "expected tree or file",
		"add 1 a tree 1GiB":                     "1 to 256MiB",
		"add 1,2 a tree 1MiB":                   "is more than one node",
		"! get 1 a":                             "column 10: the line ends here; expected the outcome",
		"! get 1 a ok":                          `"ok" is not an outcome of something that fails`,
		"flood 1 1 5":                           "does not flood itself",
		"expect":                                "expected what to expect",
		"expect red 1":                          `"red" cannot be expected`,
		"pin 1 a rf":                            "expected a number of copies",
		"pin 1 a rf 0":                          "a number of copies",
		"expect durability 1 a copies >= 3":     `"copies" is not what can be counted`,
		"expect durability 1,2 a observed >= 3": "is more than one node",
		"evacuate 1-2":                          "is more than one node",
		"expect whole":                          "a name of content",
		"expect peers 1 = 2":                    `"=" compares nothing`,
		"expect peers 1 >= x":                   "is not a number",
		"expect peers 1 >= NaN":                 "is not a number",
		"expect metric 1 a{b} > 1":              `column 19: "b" is not a label`,
		`expect metric 1 a{b="c",} > 1`:         "a label is missing after the comma",
		`expect metric 1 a{b="c > 1`:            "a quotation mark is missing",
		"expect not-ready 1 A":                  "is not the name of a gate",
		"wait 2s within 3s":                     "wait does not wait",
		"join &":                                "join does not run in the background",
		"nodes 3":                               "nodes is for the head of a scenario file",
		"kill \xff":                             "not UTF-8",
		"kill " + strings.Repeat("1,", MaxLine): "more than 1024",
	} {
		_, err := Parse(line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", line, err, want)
		}
		if status.Of(err) != status.BadRequest {
			t.Errorf("%q is %s", line, status.Of(err))
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	text := "# a tour\nnodes 3\nseed 7\nwithin 5s\n\nadd 1 a tree 1MiB\r\nget 3 a\n"
	f, err := ParseFile("x.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if f.Steps[1].Line != 7 || f.Seed != 7 || f.Nodes != 3 {
		t.Errorf("read as %+v", f)
	}
	if want := "nodes 3\nseed 7\nwithin 5s\nadd 1 a tree 1MiB\nget 3 a\n"; f.String() != want {
		t.Errorf("written as %q", f)
	}
	for text, want := range map[string]string{
		"":                           "x.txt:1:1: the file does not say how many",
		"nodes 3":                    "the file has no step",
		"kill 1":                     "x.txt:1:1: a step before the number of nodes",
		"nodes 3\nkill 4":            "x.txt:2:1: there is no node 4 in a network of 3",
		"nodes 3\npartition 1 | 2,4": "no node 4",
		"nodes 3\nlatency 1s [1:4]":  "no node 4",
		"nodes 3\nflood 1 4 9":       "no node 4",
		"nodes 3\nkill 1\nseed 7":    "x.txt:3:1: seed stands before the first step",
		"nodes 3\nget 1 a":           "nothing is called a yet",
		"nodes 3\npublish 1 site a":  "nothing is called a yet",
		"nodes 3\nexpect name 1 b a": "nothing is called a yet",
		"nodes 3\nadd 1 a tree 1MiB\n add 2 a file 1MiB":      "write `add 2 a tree 1MiB`",
		"nodes 3\n\n  kil 2":                                  `x.txt:3:3: "kil" is not a verb`,
		strings.Repeat("#", MaxFile+1):                        "more than 65536",
		"nodes 1\n" + strings.Repeat("wait 1s\n", MaxSteps+1): "more than 1000 steps",
	} {
		_, err := ParseFile("x.txt", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%q gives a %T", text, err)
		}
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		links string
		a, b  int
		want  bool
	}{
		{"", 1, 2, true}, {"[2-4]", 1, 2, true}, {"[2-4]", 1, 5, false}, {"[1:3]", 3, 1, true}, {"[1:3]", 1, 2, false},
		{"[1:all]", 4, 1, true}, {"[1:all]", 4, 2, false}, {"[all]", 4, 2, true},
	} {
		s, err := Parse("latency 1s " + c.links)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Links.Has(c.a, c.b, 5); got != c.want {
			t.Errorf("link %d-%d in %q: %t", c.a, c.b, c.links, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for line := range canonical {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, err := Parse(line)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Column < 1 {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		again, err := Parse(s.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", line, s, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%q: %+v is written %q, which is %+v", line, s, s, again)
		}
	})
}

func FuzzFile(f *testing.F) {
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("nodes 3\nadd 1 a file 1\nget 2 a &\njoin"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := ParseFile("f", text)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := ParseFile("f", []byte(file.String()))
		if err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		if again.String() != file.String() {
			t.Fatalf("%q, then %q", file, again)
		}
	})
}
