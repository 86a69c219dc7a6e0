package fileio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/verified"
	"allium/internal/printable"
	"allium/node/files"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// addThrough uploads files, directories or standard input through a gateway. It prints a
// line for each, as add does. Nothing is sent before all of them were checked.
func addThrough(
	ctx context.Context, a *cli.App, g *verified.Gateway, paths []string, name string, o api.AddOptions,
) error {
	isDir := make([]bool, len(paths))
	var checked []string // a pipe can be neither checked nor uploaded
	for i, p := range paths {
		if p == "-" {
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if isDir[i] = info.IsDir(); isDir[i] || info.Mode().IsRegular() {
			checked = append(checked, p)
		}
	}
	disk, err := adding.Disk(a, checked, o.OnBadEntry)
	if err != nil {
		return err
	}
	notes, err := disk.Check(ctx)
	if err != nil {
		return err
	}
	adding.TellNotes(a, notes)
	for i, p := range paths {
		if isDir[i] {
			err = uploadTree(ctx, a, g, p, notes, o)
		} else {
			err = uploadFile(ctx, a, g, p, name, o)
		}
		if err != nil {
			if e := (*status.Error)(nil); !o.NoPin && errors.As(err, &e) && e.Detail == string(capability.WrongOp) {
				err = status.Errorf(e.Outcome, "the capability does not allow pin, and add pins what it stores; "+
					"use another capability, or add without a pin: --no-pin")
			}
			return failure.In(p, err)
		}
	}
	return nil
}

// uploadFile uploads one file. The path - is standard input, and is called name.
func uploadFile(ctx context.Context, a *cli.App, g *verified.Gateway, path, name string, o api.AddOptions) error {
	report, finish := a.Progress("uploading")
	defer finish()
	put := verified.PutOptions{NoPin: o.NoPin, Label: o.Label, Progress: report}
	var s api.Stored
	var err error
	if path == "-" {
		path = name
		s, err = g.Put(ctx, term.Interruptible(ctx, a.Stdin), -1, put)
	} else {
		s, err = uploadFrom(ctx, g, path, put)
	}
	if err != nil {
		return err
	}
	finish()
	added := api.Added{Name: path, Root: s.Root, Kind: api.File, Files: 1, Bytes: s.Size, Hashed: 1}
	if s.New {
		added.New = s.Size
	}
	human := fmt.Sprintf("%s %s", s.Root, printable.Name(path))
	return a.Print(added, a.Text(human, s.Root.String()))
}

// uploadTree uploads one directory. The notes are those of the whole add.
func uploadTree(
	ctx context.Context, a *cli.App, g *verified.Gateway, path string, notes *api.AddNotes, o api.AddOptions,
) error {
	report, finish := a.Progress("uploading")
	defer finish()
	disk, err := adding.Disk(a, []string{path}, o.OnBadEntry)
	if err != nil {
		return err
	}
	added, err := files.Upload(ctx, disk.Items(), func(ctx context.Context, tar io.Reader) (api.Added, error) {
		return g.PutTree(ctx, tar, verified.PutOptions{NoPin: o.NoPin, Label: o.Label, Progress: report})
	})
	if err != nil {
		return err
	}
	finish()
	added.Name, added.Notes = path, adding.LateNotes(a, notes, disk)
	human := fmt.Sprintf("%s %s", added.Root, printable.Name(path))
	return a.Print(added, a.Text(human, added.Root.String()))
}

func uploadFrom(ctx context.Context, g *verified.Gateway, path string, o verified.PutOptions) (api.Stored, error) {
	f, err := os.Open(path)
	if err != nil {
		return api.Stored{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return api.Stored{}, err
	}
	if !info.Mode().IsRegular() {
		return api.Stored{}, status.Errorf(status.BadRequest,
			"it is no regular file, so an upload of it cannot be resumed; pipe it into `allium add -`")
	}
	return g.Upload(ctx, f, info.Size(), o)
}
