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

// Amnesia has the settings of a node that keeps everything in RAM (SPEC §7).
type Amnesia struct {
	RequireLock bool `koanf:"require_lock"`
}

// settle applies node.amnesia to the storage. If nobody set store.backend, it is RAM
// with amnesia and the disk without. With amnesia, a key that somebody set to use the
// disk is an error.
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
	if l.Listen.MDNS && l.Sources["listen.mdns"] != FromDefault {
		errs = append(errs,
			fmt.Errorf("listen.mdns = true (from the %s) tells the local network of this node, but %s, and "+
				"such a node leaves no trace: remove one of the two",
				sourceName[l.Sources["listen.mdns"]], l.whyAmnesia()))
	}
	l.Listen.MDNS = false
	for _, d := range diskKeys(l.Config) {
		if l.Sources[d.key] != FromDefault && d.needsDisk {
			errs = append(errs,
				fmt.Errorf("%s = %s (from the %s) needs a disk, but %s: remove %s to keep everything in RAM, "+
					"or set node.amnesia to false (`allium run --amnesia=false`) to use the disk",
					d.key, d.value, sourceName[l.Sources[d.key]], l.whyAmnesia(), d.key))
		}
	}
	return errors.Join(errs...)
}

var sourceName = map[Source]string{FromFile: "file", FromEnv: "environment", FromFlag: "command line"}

// whyAmnesia returns a clause that says who turned amnesia on.
func (l *Loaded) whyAmnesia() string {
	if from := l.Sources["node.amnesia"]; from != FromDefault {
		return fmt.Sprintf("node.amnesia is on (from the %s)", sourceName[from])
	}
	return fmt.Sprintf("node.amnesia is on (the default of profile %s)", p2p.Micronode)
}

// diskKey is a key whose field has a disk tag, and its value.
type diskKey struct {
	key, value string
	needsDisk  bool // the value needs a disk: it is neither empty nor listed in the tag
}

// diskKeys lists the keys whose field has a disk tag. `disk:"a b"` marks a setting
// that needs a disk, unless its value is a, b or empty.
func diskKeys(c Config) []diskKey {
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
