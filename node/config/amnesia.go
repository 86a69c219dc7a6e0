package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"allium/node/p2p"
	"allium/store"
)

// Amnesia is how a node behaves that keeps everything in RAM (SPEC §7).
type Amnesia struct {
	RequireLock bool `koanf:"require_lock"`
}

// settle makes the storage fit node.amnesia, which a profile sets or the user:
// what nobody chose follows it, and what somebody chose must not contradict it.
func (l *Loaded) settle() error {
	if l.Sources["store.backend"] == FromDefault {
		l.Store.Backend = store.BackendEmbedded
		if l.Node.Amnesia {
			l.Store.Backend = store.BackendMemory
		}
	}
	if !l.Node.Amnesia {
		return nil
	}
	var errs []error
	for _, d := range needDisk(l.Config) {
		if l.Sources[d.key] != FromDefault && d.wanted {
			errs = append(errs, fmt.Errorf("%s = %s (from the %s) needs a disk, but %s: remove %s to keep everything in RAM, or set node.amnesia to false (`allium run --amnesia=false`) to use the disk",
				d.key, d.value, sourceName[l.Sources[d.key]], l.whyAmnesia(), d.key))
		}
	}
	return errors.Join(errs...)
}

var sourceName = map[Source]string{FromFile: "file", FromEnv: "environment", FromFlag: "command line"}

func (l *Loaded) whyAmnesia() string {
	if from := l.Sources["node.amnesia"]; from != FromDefault {
		return fmt.Sprintf("node.amnesia is on (from the %s)", sourceName[from])
	}
	return fmt.Sprintf("node.amnesia is on (the default of profile %s)", p2p.Micronode)
}

// diskKey is a key that decides something about the disk.
type diskKey struct {
	key, value string
	wanted     bool // the value asks for a disk: it is neither empty nor one that the field's tag lists
}

// needDisk lists the keys whose field has a disk tag: `disk:"a b"` marks a
// setting that only a node with a disk can follow, unless its value is a or b,
// or empty.
func needDisk(c Config) []diskKey {
	var keys []diskKey
	walk(reflect.ValueOf(c), "", settable, func(name string, v reflect.Value, f reflect.StructField) {
		harmless, tagged := f.Tag.Lookup("disk")
		if !tagged {
			return
		}
		value := format(v)
		keys = append(keys, diskKey{name, value, !v.IsZero() && !slices.Contains(strings.Fields(harmless), value)})
	})
	return keys
}
