package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"allium/node/p2p"
	"allium/protocols/status"
)

// Source says where a value came from.
type Source string

// The sources, the strongest last.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"

	FromFixed Source = "fixed" // nothing sets it
)

// Options says where to look.
type Options struct {
	File     string         // TOML file; a missing one is an error only if Required
	Required bool           // the file was named by the user
	Env      []string       // as os.Environ; ALLIUM_DHT__ALPHA=5 sets dht.alpha
	Flags    map[string]any // dotted key → value
}

// Loaded is a configuration with the origin of every key.
type Loaded struct {
	Config
	Sources map[string]Source // every key of Keys
	File    string            // the file that was read, or empty

	// Obsolete are the keys that are fixed now, and were set to the value that
	// holds: they may be taken out.
	Obsolete []Obsolete
}

// envPrefix starts a variable that sets a key; two underscores stand for each
// dot, so ALLIUM_HOME is not one.
const envPrefix = "ALLIUM_"

// Load reads flags over environment over file over the profile's defaults. All
// that is wrong is one bad_request: unknown keys with the nearest known key,
// fixed keys with another value than theirs, and values that do not fit or fail
// validation.
func Load(o Options) (Loaded, error) {
	file, err := readFile(o)
	if err != nil {
		return Loaded{}, err
	}
	layers := []layer{{FromFile, file}, {FromEnv, fromEnv(o.Env)}, {FromFlag, o.Flags}}

	k := koanf.New(".")
	sources := map[string]Source{}
	for _, key := range Keys() {
		sources[key.Name] = FromDefault
	}
	for _, l := range layers {
		known := map[string]any{}
		for key, v := range l.values {
			if _, ok := sources[key]; ok {
				known[key], sources[key] = v, l.source
			}
		}
		if err := k.Load(confmap.Provider(known, "."), nil); err != nil {
			return Loaded{}, fmt.Errorf("config: %s: %w", l.source, err)
		}
	}
	profile := p2p.Macronode
	if k.Exists("node.profile") {
		profile = Profile(k.String("node.profile"))
	}
	out := Loaded{Config: Default(profile), Sources: sources}
	if file != nil {
		out.File = o.File
	}
	errs := out.unsettable(layers)
	if err := decode(k.Raw(), &out.Config); err != nil {
		errs = append(errs, err)
	} else {
		errs = append(errs, out.settle(), out.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return Loaded{}, status.Errorf(status.BadRequest, "config: %w", err)
	}
	return out, nil
}

// decode fits raw values onto what result points to; what raw does not name
// stays as it is.
func decode(raw, result any) error {
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: result, TagName: "koanf", ErrorUnused: true, ZeroFields: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			exact,
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToSliceHookFunc(","),
			mapstructure.TextUnmarshallerHookFunc(),
		),
	})
	if err != nil {
		return err
	}
	return dec.Decode(raw)
}

// exact refuses what weak typing would bend: it is there for the environment,
// which has nothing but strings.
func exact(from, to reflect.Kind, v any) (any, error) {
	integer := to >= reflect.Int && to <= reflect.Uint64
	if from == reflect.Float64 && integer || from == reflect.Bool && to != reflect.Bool && to != reflect.Interface {
		return nil, fmt.Errorf("%v is not a value for it", v)
	}
	return v, nil
}

// readFile returns the file's values by dotted key, or nil if there is none.
func readFile(o Options) (map[string]any, error) {
	if o.File == "" {
		return nil, nil
	}
	src, err := os.ReadFile(o.File)
	switch {
	case errors.Is(err, os.ErrNotExist) && !o.Required:
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, status.Errorf(status.NotFound, "config: there is no file %s; `allium init` writes one", o.File)
	case errors.Is(err, os.ErrPermission):
		return nil, status.Errorf(status.Forbidden, "config: %w", err)
	case err != nil: // a directory, or a disk that does not read
		return nil, status.Errorf(status.BadRequest, "config: %w", err)
	}
	tree, err := toml.Parser().Unmarshal(src)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "config: %s: %w", o.File, err)
	}
	flat, _ := maps.Flatten(tree, nil, ".")
	for key, v := range flat {
		if table, ok := v.(map[string]any); ok && len(table) == 0 { // a table without keys
			delete(flat, key)
		}
	}
	return flat, nil
}

// fromEnv picks the variables that set keys.
func fromEnv(env []string) map[string]any {
	values := map[string]any{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if key, ok := strings.CutPrefix(name, envPrefix); ok && strings.Contains(key, "__") {
			values[strings.ToLower(strings.ReplaceAll(key, "__", "."))] = value
		}
	}
	return values
}

// suggest names the known key nearest to an unknown one, if one is near.
func suggest(key string) string {
	best, dist := "", 4
	for _, k := range Keys() {
		if d := distance(key, k.Name); d < dist {
			best, dist = k.Name, d
		}
		// the right name under the wrong group
		if _, last, ok := strings.Cut(k.Name, "."); ok && best == "" && strings.HasSuffix(key, last) {
			best = k.Name
		}
	}
	if best == "" {
		return "; `allium config show` lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the Levenshtein distance of two short strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}

// Explained is all that there is to say of a key.
type Explained struct {
	Value
	Env string `json:"env"` // the variable that sets it; none sets a fixed one
	Hot bool   `json:"hot"` // a reload applies it; else it takes a restart
}

// Explain says what there is to say of the key name, also of one that is fixed
// now. An unknown one is bad_request, with the nearest key that is known.
func (l Loaded) Explain(name string) (Explained, error) {
	for _, v := range Fixed() {
		if v.Name == name {
			return Explained{Value: v}, nil
		}
	}
	for _, v := range l.Values() {
		if v.Name == name {
			return Explained{Value: v, Env: envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "__"))}, nil
		}
	}
	return Explained{}, status.Errorf(status.BadRequest, "config: unknown key %q%s", name, suggest(name))
}
