package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"allium/internal/limits"
	"allium/internal/suggest"
	"allium/node/config/document"
	"allium/node/p2p"
	"allium/protocols/status"
)

// Source is the origin of a value.
type Source string

// The sources, the strongest last. A fixed key has none of them.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"

	FromFixed Source = "fixed" // the key cannot be set
)

// Options are the sources that Load reads.
type Options struct {
	File     string         // TOML file, or empty
	Required bool           // a missing File is an error, because the user named it
	Env      []string       // as os.Environ returns it; ALLIUM_DHT__ALPHA=5 sets dht.alpha
	Flags    map[string]any // dotted key → value
}

// Loaded is a configuration with the origin of every key.
type Loaded struct {
	Config
	Sources map[string]Source // every key of Keys and of the entries of tables; an entry has the first that sets it
	File    string            // the file that was read, or empty

	// Obsolete are the keys that are fixed now and were set to the fixed value. The
	// user may remove them.
	Obsolete []Obsolete
}

// envPrefix begins the name of a variable that sets a key. Two underscores stand
// for each dot of the key, so ALLIUM_HOME sets none.
const envPrefix = "ALLIUM_"

// Load reads the configuration. Flags override the environment, which overrides the file, which overrides the profile's
// defaults. One error of status.BadRequest lists everything that is wrong: unknown keys, each with the nearest known
// key; fixed keys with another value than the fixed one; values of a wrong type or out of bounds; and variables that
// are close to the one of a key. The error names the line and column of a value in the file, and the variable of one in
// the environment.
func Load(o Options) (Loaded, error) {
	file, err := readFile(o)
	if err != nil {
		return Loaded{}, err
	}
	if file == nil || len(file.Text()) < largeFile {
		return load(o, file)
	}
	loaded, err := load(o, file)
	debug.FreeOSMemory() // reading took many times what is left
	return loaded, err
}

// ReturnMemory gives the memory that was taken to compare and apply a configuration back to the system at once, if the
// configuration has many keys. An idle node would do so after minutes.
func ReturnMemory(l *Loaded) {
	if len(l.Sources) > manyKeys {
		debug.FreeOSMemory()
	}
}

// manyKeys is the number of keys above which a configuration is large: the entries of tables have most of them.
const manyKeys = 2_000

// largeFile is the length in bytes of a file above which the memory for reading it is returned at once.
const largeFile = 128 << 10

// load is Load with the content of the file; nil is no file.
func load(o Options, file *document.Document) (Loaded, error) {
	layers := []layer{{source: FromEnv, values: fromEnv(o.Env)}, {source: FromFlag, values: o.Flags}}
	if file != nil {
		layers = append([]layer{{FromFile, file.Values(), o.File, file}}, layers...)
	}
	k := koanf.New(".")
	sources := map[string]Source{}
	for _, key := range Keys() {
		sources[key.Name] = FromDefault
	}
	errs := append(strays(o.Env), emptyEntries(layers[0])...)
	var mistyped []string
	var faulty []string // entries of tables with an error of their own, which are not checked further
	for _, l := range layers {
		known := map[string]any{}
		for key, v := range l.values {
			field, ok := fieldOf(key)
			_, entry := formOf(key)
			if !ok {
				faulty = append(faulty, entry)
				continue
			}
			if err := l.typeError(key, field.Type(), v); err != nil {
				errs, faulty, mistyped = append(errs, err), append(faulty, entry), append(mistyped, key)
				continue
			}
			known[key], sources[key] = v, l.source
			if _, ok := sources[entry]; !ok && entry != "" {
				sources[entry] = l.source
			}
		}
		if err := k.Load(confmap.Provider(known, "."), nil); err != nil {
			return Loaded{}, fmt.Errorf("%s: %w", l.source, err)
		}
	}
	for _, entry := range faulty {
		if entry != "" {
			k.Delete(entry)
		}
	}
	profile := p2p.Desktop
	if k.Exists("node.profile") {
		profile = Profile(k.String("node.profile")).Canonical()
	}
	out := Loaded{Config: Default(profile), Sources: sources}
	if file != nil {
		out.File = o.File
	}
	errs = append(errs, out.unsettable(layers)...)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := decode(k.Raw(), &out.Config); err != nil {
		errs = append(errs, err)
	} else {
		for key := range leaves(out.Config, settable) {
			if _, ok := sources[key]; !ok {
				sources[key] = FromDefault // a key of an entry that sets others
			}
		}
		out.Node.Profile = profile // not its old name
		if sources["listen.addrs"] == FromDefault {
			out.Listen.Listen = p2p.ListenAddrs(profile, out.Listen.Port)
		}
		own := flatten(out.settle(), out.privateListen()) // they know more than Validate
		for _, err := range append(own, out.once(own, mistyped, flatten(out.Validate()))...) {
			errs = append(errs, out.located(layers, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Loaded{}, status.Errorf(status.BadRequest, "%w", err)
	}
	return out, nil
}

// emptyEntries returns an error for each entry of a table by name, as [edge.packs.city], that a file begins and sets
// nothing of.
func emptyEntries(file layer) (errs []error) {
	if file.text == nil {
		return nil
	}
	for _, name := range document.EmptyTables(file.text) {
		if _, entry := formOf(name); entry == name {
			errs = append(errs, fmt.Errorf("%s%s is an empty table: set its keys, or take it out",
				file.where(name), name))
		}
	}
	return errs
}

// decode converts raw and stores it in what result points to. Fields that raw does
// not name keep their values.
func decode(raw, result any) error {
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: result, TagName: "koanf", ErrorUnused: true, ZeroFields: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			fromDefaults,
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

// exact refuses three conversions that WeaklyTypedInput would make without an error:
// a number with a fraction to an integer, a number to a boolean, and a boolean to another type. Weak typing
// is needed for the environment, which has only strings.
func exact(from, to reflect.Kind, v any) (any, error) {
	integer := to >= reflect.Int && to <= reflect.Uint64
	number := from >= reflect.Int && from <= reflect.Float64
	if from == reflect.Float64 && integer || number && to == reflect.Bool ||
		from == reflect.Bool && to != reflect.Bool && to != reflect.Interface {
		return nil, fmt.Errorf("%v is not a value for it", v)
	}
	return v, nil
}

// readFile parses the file. It returns nil if there is none.
func readFile(o Options) (*document.Document, error) {
	if o.File == "" {
		return nil, nil
	}
	src, err := readUnchanged(o.File)
	switch {
	case errors.Is(err, os.ErrNotExist) && !o.Required:
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, missing(o.File)
	case errors.Is(err, os.ErrPermission):
		return nil, status.Errorf(status.Forbidden, "%w", err)
	case status.Of(err) == status.Conflict:
		return nil, err
	case err != nil: // a directory, or an error of the disk
		return nil, status.Errorf(status.BadRequest, "%w", err)
	}
	return parseFile(o.File, src)
}

// maxFile bounds the bytes of a configuration file. One with 10,000 sites has half of that.
const maxFile limits.Bytes = 4 << 20

// readUnchanged reads a file of at most maxFile bytes. It returns conflict if the file is replaced or written to
// meanwhile: what was read of it may be half of what its author wants.
func readUnchanged(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpened(f, name)
}

// readOpened is readUnchanged of a file that was opened as name.
func readOpened(f *os.File, name string) ([]byte, error) {
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	src, err := io.ReadAll(io.LimitReader(f, int64(maxFile)+1))
	if err != nil {
		return nil, err
	}
	if len(src) > int(maxFile) {
		return nil, status.Errorf(status.BadRequest, "%s is larger than %s, and a configuration is not. Check that it "+
			"is the right file", name, maxFile)
	}
	after, err := os.Stat(name)
	switch {
	case before.Mode().IsRegular() && (errors.Is(err, os.ErrNotExist) || err == nil && !unchanged(before, after)):
		return nil, status.Errorf(status.Conflict, "%s changed while it was read. Try again when it is written", name)
	case before.Mode().IsRegular() && err != nil:
		return nil, err
	}
	return src, nil
}

// unchanged reports whether two looks at a file found the same one, with the same content.
func unchanged(before, after os.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// missing is the error of a configuration file that does not exist.
func missing(file string) error {
	return status.Errorf(status.NotFound, "there is no file %s; `allium init` writes one", file)
}

// parseFile parses the content of a configuration file.
func parseFile(name string, src []byte) (*document.Document, error) {
	d, err := document.Parse(src)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "%s:%w", name, err)
	}
	return d, nil
}

// didYouMean ends the sentence about an unknown key: it names the known key that
// was probably meant, or else the command that lists the keys.
func didYouMean(key string) string {
	var names []string
	for _, k := range Keys() {
		names = append(names, likeKey(k.Name, key))
	}
	best := suggest.Nearest(key, names)
	if best == "" { // the right name under the wrong group, or under none
		for _, name := range names {
			if _, last, ok := strings.Cut(name, "."); ok && strings.HasSuffix(key, last) {
				best = name
				break
			}
		}
	}
	if best == "" {
		return "; `allium config show` lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
