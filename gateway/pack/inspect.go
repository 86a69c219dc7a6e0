package pack

import (
	"context"
	"path/filepath"

	"allium/gateway/pack/tile"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Report says what a pack is.
type Report struct {
	Root b3.Root // of an object; zero for a file
	Size int64   // in bytes
	Info *tile.Info
}

// Inspect verifies the pack that a key stands for, and counts its tiles. progress may be nil.
func (s *Set) Inspect(ctx context.Context, key string, progress ProgressFunc) (Report, error) {
	m := newMount("", Mount{Key: key})
	now, _, err := s.open.refresh(ctx, m, progress)
	if err != nil {
		return Report{}, err
	}
	defer now.leave()
	return now.report(ctx)
}

// InspectFile verifies a file, also one that a link leads to, and counts its tiles.
func InspectFile(ctx context.Context, path string) (Report, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Report{}, status.FromFile(path, err)
	}
	dir, name := filepath.Split(real)
	if dir == "" {
		dir = "."
	}
	return InspectBelow(ctx, dir, name)
}

// InspectBelow verifies a file below dir as a mount of edge.dir does, and counts its tiles.
func InspectBelow(ctx context.Context, dir, name string) (Report, error) {
	cfg := DefaultConfig()
	cfg.Dir = dir
	o := newOpener(cfg, Deps{})
	defer o.databases.Close()
	now, err := o.openFile(ctx, name)
	if err != nil {
		return Report{}, err
	}
	defer now.leave()
	return now.report(ctx)
}

// report counts the tiles of a pack and describes it.
func (s *state) report(ctx context.Context) (Report, error) {
	info := *s.archive.Info()
	var err error
	info.Tiles, info.Contents, err = s.archive.Count(ctx)
	return Report{Root: s.root, Size: s.size, Info: &info}, err
}
