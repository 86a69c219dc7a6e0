package edge

import (
	"context"
	"errors"
	"maps"
	"slices"

	"allium/gateway/fill"
	"allium/gateway/pack"
	"allium/node/home"
	"allium/protocols/status"
)

// CheckPacks verifies the packs of a configuration that are files, and returns what is wrong with each. Those of
// addresses and names only a running node finds.
func CheckPacks(ctx context.Context, homeDir string, cfg pack.Config) error {
	dir := home.Path(homeDir, cfg.Dir)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Packs)) {
		file := cfg.Packs[name].File
		if file == "" {
			continue
		}
		if _, err := pack.InspectBelow(ctx, dir, file); err != nil {
			errs = append(errs, status.Errorf(outcome(err), "edge.packs.%s.file: %v", name, err))
		}
	}
	return errors.Join(errs...)
}

// CheckSources returns what is wrong with the sources of a configuration, and with the files that they name. It asks
// no origin.
func CheckSources(homeDir string, cfg fill.Config) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		one := cfg
		one.Sources = map[string]fill.Source{name: cfg.Sources[name]}
		if _, err := NewFills(one, Deps{Home: homeDir}); err != nil {
			errs = append(errs, status.Errorf(outcome(err), "%v", err)) // it names the key
		}
	}
	return errors.Join(errs...)
}

// outcome returns the outcome of an error about a file that an operator names. The sentence about such an error names
// the key, and not the file alone.
func outcome(err error) status.Outcome {
	if o, ok := status.OfFile(err); ok {
		return o
	}
	return status.Of(err)
}
