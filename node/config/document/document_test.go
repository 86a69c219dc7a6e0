package document_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/node/config/document"
)

func parse(t *testing.T, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, key, literal, after string }{
		"replaced, the comment stays": {
			"[a]\nb = 1 # why\nc = 2\n", "a.b", "7", "[a]\nb = 7 # why\nc = 2\n"},
		"below the commented line": {
			"[a]\n# What b is.\n# b = 1\n\n# What c is.\nc = 2\n", "a.b", "7",
			"[a]\n# What b is.\n# b = 1\nb = 7\n\n# What c is.\nc = 2\n"},
		"behind the last key": {
			"[a]\nc = 2\n\n# about d\n[d]\ne = 1\n", "a.b", "7", "[a]\nc = 2\nb = 7\n\n# about d\n[d]\ne = 1\n"},
		"indented like its neighbour": {"[a]\n  c = 2\n", "a.b", "7", "[a]\n  c = 2\n  b = 7\n"},
		"in an empty table":           {"[a] # note\n[c]\n", "a.b", "7", "[a] # note\nb = 7\n[c]\n"},
		"a new table":                 {"[c]\nd = 1", "a.b", "7", "[c]\nd = 1\n\n[a]\nb = 7\n"},
		"an empty file":               {"", "a.b", "7", "[a]\nb = 7\n"},
		"a table in a table":          {"[a]\nb = 1\n", "a.x.y", "7", "[a]\nb = 1\n\n[a.x]\ny = 7\n"},
		"beside a dotted key":         {"[a]\nx.y = 1\n", "a.x.z", "7", "[a]\nx.y = 1\nx.z = 7\n"},
		"dotted, before any table":    {"a.x = 1\n[c]\n", "a.b", "7", "a.x = 1\na.b = 7\n[c]\n"},
		"in an inline table":          {"a = { x = 1 } # note\n", "a.b", "7", "a = { x = 1, b = 7 } # note\n"},
		"in an empty inline table":    {"a = {}\n", "a.b", "7", "a = { b = 7 }\n"},
		"a member of an inline table": {"a = { b = 1, c = 2 }\n", "a.b", "7", "a = { b = 7, c = 2 }\n"},
		"a list of several lines": {
			"[a]\nb = [\n  \"x]\", # one\n  'y',\n]\nc = 1\n", "a.b", `["z"]`, "[a]\nb = [\"z\"]\nc = 1\n"},
		"a long string": {
			"[a]\ns = \"\"\"\n# b = 1\n\"\"\"\"\nc = 1\n", "a.b", "7",
			"[a]\ns = \"\"\"\n# b = 1\n\"\"\"\"\nc = 1\nb = 7\n"},
		"carriage returns": {"[a]\r\nc = 2\r\n", "a.b", "7", "[a]\r\nc = 2\r\nb = 7\r\n"},
		"quoted key":       {"[\"a\"]\n'b' = 'it\\' # x\n", "a.b", "7", "[\"a\"]\n'b' = 7 # x\n"},
		"date":             {"[a]\nb = 1979-05-27 07:32:00 # x\n", "a.b", "true", "[a]\nb = true # x\n"},
	} {
		got, err := parse(t, c.before).Set(c.key, c.literal)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(got.Text()) != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got.Text(), c.after)
		}
	}
}

func TestSetRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, key, literal string }{
		"the table is a value":  {"a = 1\n", "a.b", "7"},
		"the table is a list":   {"[[a]]\nb = 1\n[[a]]\nb = 2\n", "a.c", "7"},
		"the key is a table":    {"[a.b]\nc = 1\n", "a.b", "7"},
		"an inline table":       {"a = { b = { c = 1 } }\n", "a.b", "7"},
		"two values":            {"", "a.b", "7\nc = 8"},
		"no value":              {"", "a.b", ""},
		"a comment for a value": {"", "a.b", "# 7"},
	} {
		if got, err := parse(t, c.text).Set(c.key, c.literal); err == nil {
			t.Errorf("%s: got\n%s", name, got.Text())
		}
	}
}

func TestUnset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, key, after string }{
		"a line":            {"[a]\n# about b\nb = 1\nc = 2\n", "a.b", "[a]\n# about b\nc = 2\n"},
		"its comment stays": {"[a]\n  b = 1 # why\n", "a.b", "[a]\n  # why\n"},
		"several lines":     {"[a]\nb = [\n1, # one\n]\nc = 2\n", "a.b", "[a]\nc = 2\n"},
		"no last newline":   {"[a]\nb = 1", "a.b", "[a]\n"},
		"first of a table":  {"a = { b = 1, c = 2 }\n", "a.b", "a = { c = 2 }\n"},
		"last of a table":   {"a = { c = 2, b = 1 }\n", "a.b", "a = { c = 2 }\n"},
		"alone in a table":  {"a = { b = 1 }\n", "a.b", "a = {  }\n"},
		"not set":           {"[a]\nc = 1\n", "a.b", "[a]\nc = 1\n"},
		"a table": {
			"[a]\nb = 1\n\n# about x\n[a.x]\n# why\ny = 1 # z\n# z = 2\n\n[c]\nd = 1\n", "a.x",
			"[a]\nb = 1\n\n# about x\n\n[c]\nd = 1\n"},
		"comments above the next": {
			"[a.x]\ny = 1\n# about c\n[c]\n", "a.x", "# about c\n[c]\n"},
		"comments behind a blank line": {
			"b = 1\n\n[a.x]\ny = 1\n\n# z\n", "a.x", "b = 1\n\n# z\n"},
		"a table and its tables": {
			"[a.x]\ny = 1\n[c]\nd = 1\n[a.x.z]\ny = [\n1,\n]\n[a.xx]\ny = 1\n", "a.x",
			"[c]\nd = 1\n[a.xx]\ny = 1\n"},
		"a table of dotted keys": {
			"[a]\nx.y = 1\nb = 2\nx.z = 3 # z\n", "a.x", "[a]\nb = 2\n# z\n"},
		"an inline table":  {"a = { x = { y = 1 }, z = 2 }\n", "a.x", "a = { z = 2 }\n"},
		"a list of tables": {"[[a]]\nx = 1\n[b]\n[[a]]\nx = 2\n", "a", "[b]\n"},
	} {
		got, err := parse(t, c.before).Unset(c.key)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(got.Text()) != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got.Text(), c.after)
		}
	}
}

// TestPrune: a table goes if nothing is in it, and the comments of its neighbours stay.
func TestPrune(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"bare":                   {"[b]\nc = 1\n\n[a.x]\n", "[b]\nc = 1\n"},
		"blank lines":            {"[a.x]\n\n \n[b]\n", "\n \n[b]\n"},
		"above a comment":        {"[b]\n\n[a.x]\n\n# about c\n[c]\n", "[b]\n\n# about c\n[c]\n"},
		"inline":                 {"a = { x = {  }, y = 1 }\n", "a = { y = 1 }\n"},
		"a key":                  {"[a.x]\ny = 1\n", "[a.x]\ny = 1\n"},
		"its own comment":        {"[a.x] # why\n", "[a.x] # why\n"},
		"a comment in it":        {"[a.x]\n# y = 1\n[c]\n", "[a.x]\n# y = 1\n[c]\n"},
		"a comment, and the end": {"[a.x]\n\n# y = 1\n", "[a.x]\n\n# y = 1\n"},
		"not there":              {"[a]\n", "[a]\n"},
	} {
		if got := string(parse(t, c.before).Prune("a.x").Text()); got != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.after)
		}
	}
}

// TestTablesAsModel: whatever is set and unset in tables, the values are those of a map, and comments outside of
// removed tables stay.
func TestTablesAsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{
			"", "# top\n[c]\nd = 1\n", "[e]\nx.y = 0 # top\n", "[e] # top\n\n# top\n[e.x]\ny = 0\n\n# top\n[c]\n",
			"e = { x = { y = 0 } } # top\r\n", "[e]\nx = { y = 0 }\n# top\n\n[c]\nd = 1", "[e.x]\n\n# top\n[\"e\".'z']\n",
		}).Draw(t, "text")
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(d.Values())
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			entry := "e." + rapid.SampledFrom([]string{"x", "z", "a-b", "a b", "NAME"}).Draw(t, "entry")
			key := entry + "." + rapid.SampledFrom([]string{"y", "z"}).Draw(t, "key")
			var next *document.Document
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				n := rapid.Int64().Draw(t, "value")
				if next, err = d.Set(key, fmt.Sprint(n)); err == nil {
					want[key] = n
				}
			case 2:
				if next, err = d.Unset(key); err == nil {
					delete(want, key)
					next = next.Prune(entry)
				}
			case 3:
				if next, err = d.Unset(entry); err == nil {
					maps.DeleteFunc(want, func(k string, _ any) bool { return strings.HasPrefix(k, entry+".") })
				}
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, d.Text())
			}
			d = next
			if !maps.Equal(d.Values(), want) {
				t.Fatalf("got %v, want %v:\n%s", d.Values(), want, d.Text())
			}
			if got := strings.Count(string(d.Text()), "# top"); got != strings.Count(text, "# top") {
				t.Fatalf("%d comments are left in\n%s", got, d.Text())
			}
		}
	})
}

func TestPositions(t *testing.T) {
	t.Parallel()
	d := parse(t, "# é\n[a]\nb = 1\n  c = 'é'\nd = { e = 'é', f = 2 }\n")
	for key, want := range map[string]string{"a.b": "3:1", "a.c": "4:3", "a.d.e": "5:7", "a.d.f": "5:16"} {
		if at, ok := d.Position(key); !ok || at.String() != want {
			t.Errorf("%s is at %s, want %s", key, at, want)
		}
	}
	if at, ok := d.Position("a.x"); ok {
		t.Errorf("a key that is not there is at %s", at)
	}
	d = parse(t, "[c]\nx.y = 1\n [a.b]\nc = 1\n")
	for key, want := range map[string]string{"c.x": "2:1", "a.b": "3:1", "a": "3:1", "c": "1:1"} {
		if at, ok := d.Position(key); !ok || at.String() != want {
			t.Errorf("%s is at %s, want %s", key, at, want)
		}
	}
	_, err := document.Parse([]byte("[a]\nb = = 1\n"))
	var syntax *document.SyntaxError
	if !errors.As(err, &syntax) || syntax.Line != 2 || strings.Contains(err.Error(), "toml") {
		t.Errorf("a syntax error is %v", err)
	}
}

// FuzzSet: a key that was set has the value, and nothing else has changed. What is unset again
// leaves the values as they were.
func FuzzSet(f *testing.F) {
	for _, text := range []string{
		"", "[a]\n# b = 1\n", "a.x = 1\n", "a = {x=1}", "[a]\nb = [\n1,\n]", "[a.b]\nc=1", "[[a]]\n",
		"a=\"\"\"\n#b=1\n\"\"\"",
		"\"a\".'b' = 1 # x\r\n", "[a]\nb = '''x'''''\n",
	} {
		f.Add(text, "x", int64(1))
	}
	f.Add("[a.b]\n", "x", int64(1))
	f.Fuzz(func(t *testing.T, text, value string, n int64) {
		d, err := document.Parse([]byte(text))
		if err != nil {
			return
		}
		without, err := d.Unset("a.b")
		if err == nil {
			without = without.Prune("a.b")
			for key, v := range d.Values() {
				below := key == "a.b" || strings.HasPrefix(key, "a.b.")
				if w, still := without.Values()[key]; still == below || still && !reflect.DeepEqual(v, w) {
					t.Fatalf("%q without a.b: %s is %v, was %v", text, key, w, v)
				}
			}
		}
		for literal, want := range map[string]any{
			document.Quote(value): string([]rune(value)),
			fmt.Sprint(n):         n,
			"[" + document.Quote(value) + ", \"'#]\\\"\"]": []any{string([]rune(value)), `'#]"`},
		} {
			next, err := d.Set("a.b", literal)
			if err != nil {
				continue // as the layout allows
			}
			if got := next.Values()["a.b"]; !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: a.b = %s reads as %v", text, literal, got)
			}
			for key, v := range d.Values() {
				if key != "a.b" && !reflect.DeepEqual(next.Values()[key], v) {
					t.Fatalf("%q: a.b = %s changes %s", text, literal, key)
				}
			}
			if lost := lostLines(text, string(next.Text())); lost > 0 && d.Values()["a.b"] == nil {
				t.Fatalf("%q: a.b = %s removes %d lines:\n%s", text, literal, lost, next.Text())
			}
			without, err := next.Unset("a.b")
			if err != nil {
				continue
			}
			if _, still := without.Values()["a.b"]; still {
				t.Fatalf("%q: a.b is still set", text)
			}
		}
	})
}

// lostLines counts the lines with a comment that are in before and not in after.
func lostLines(before, after string) (lost int) {
	for line := range strings.Lines(before) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") && !strings.Contains(after, line) {
			lost++
		}
	}
	return lost
}
