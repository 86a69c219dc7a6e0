package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"allium/node/p2p"
	"allium/protocols/status"
)

// other is a value of the fixed key v that does not hold.
func other(t *testing.T, v Value) string {
	t.Helper()
	switch v.Type {
	case "bool":
		return strconv.FormatBool(v.Value == "false")
	case "integer":
		n, err := strconv.Atoi(v.Value)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n + 1)
	case "number":
		return v.Value + "1"
	case "duration":
		d, err := time.ParseDuration(v.Value)
		if err != nil {
			t.Fatal(err)
		}
		return (d + time.Millisecond).String()
	case "size":
		return "12345"
	default:
		return "other"
	}
}

// inFile writes the values as a configuration file.
func inFile(t *testing.T, values ...Value) string {
	t.Helper()
	var b strings.Builder
	for _, v := range values {
		dot := strings.LastIndexByte(v.Name, '.')
		if table := "[" + v.Name[:dot] + "]\n"; !strings.Contains(b.String(), table) {
			b.WriteString(table)
		}
		fmt.Fprintf(&b, "%s = %s\n", v.Name[dot+1:], literal(v))
	}
	name := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// inEnv is the variable that once set v.
func inEnv(v Value) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(v.Name, ".", "__")) + "=" + v.Value
}

// TestFixedKeys sets each key that is fixed, from every source: with the value
// that holds it changes nothing and is reported, with another it is refused.
func TestFixedKeys(t *testing.T) {
	t.Parallel()
	fixed := Fixed()
	if len(fixed) < 100 {
		t.Fatalf("only %d fixed keys", len(fixed))
	}
	for _, v := range fixed {
		wrong := v
		wrong.Value = other(t, v)
		for from, o := range map[Source][2]Options{
			FromFile: {{File: inFile(t, v)}, {File: inFile(t, wrong)}},
			FromEnv:  {{Env: []string{inEnv(v)}}, {Env: []string{inEnv(wrong)}}},
			FromFlag: {{Flags: map[string]any{v.Name: v.Value}}, {Flags: map[string]any{v.Name: wrong.Value}}},
		} {
			l, err := Load(o[0])
			if err != nil {
				t.Errorf("%s: %s = %s: %v", from, v.Name, v.Value, err)
				continue
			}
			want := []Obsolete{{from, v.Name, v.Value, v.Doc}}
			if !slices.Equal(l.Obsolete, want) || !reflect.DeepEqual(l.Config, Default(p2p.Desktop)) {
				t.Errorf("%s: %s = %s: got %v", from, v.Name, v.Value, l.Obsolete)
			}
			_, err = Load(o[1])
			says := fmt.Sprintf("%s = %s cannot be set, it is fixed at %s now; take it out: %s", v.Name, wrong.Value,
				quoteEmpty(v.Value), v.Doc)
			switch from {
			case FromEnv:
				says = variable(v.Name) + ": " + says
			case FromFile:
				says = ": " + says
			}
			if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %s = %s: got %v, want %q", from, v.Name, wrong.Value, err, says)
			}
		}
	}
}

// TestAllThatIsWrongIsOneError: fixed keys, unknown ones and wrong values of
// those that can be set, in file and environment.
func TestAllThatIsWrongIsOneError(t *testing.T) {
	t.Parallel()
	var wrong []Value
	var env []string
	for _, v := range Fixed() {
		v.Value = other(t, v)
		wrong = append(wrong, v)
		env = append(env, inEnv(v))
	}
	o := Options{File: inFile(t, wrong...),
		Env: append(env, "ALLIUM_DHT__ALPA=1", "ALLIUM_DHT__ALPHA=99", "ALLIUM_LOG__LEVEL=loud")}
	_, err := Load(o)
	if status.Of(err) != status.BadRequest {
		t.Fatal(err)
	}
	want := []string{`did you mean "dht.alpha"`, "dht.alpha is 99", `log.level is "loud"`}
	for _, v := range wrong {
		says := fmt.Sprintf(": %s = %s ", v.Name, v.Value)
		want = append(want, ":1"+says, variable(v.Name)+says)
	}
	for _, s := range want {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q", s)
		}
	}
	o.Env = append(env, "ALLIUM_DHT__ALPHA=many")
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "dht.k = ") ||
		!strings.Contains(err.Error(), "many") {
		t.Errorf("a value that does not fit beside fixed keys: %v", err)
	}
}

// TestExplainFixed: a key that is fixed can be asked for.
func TestExplainFixed(t *testing.T) {
	t.Parallel()
	l, err := Load(Options{})
	for _, v := range Fixed() {
		e, xerr := l.Explain(v.Name)
		if err := errors.Join(err, xerr); err != nil || e.Value != v || e.Source != FromFixed || e.Env != "" {
			t.Errorf("%s: %+v, %v", v.Name, e, err)
		}
	}
}
