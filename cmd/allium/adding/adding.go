// Package adding brings files of this machine to a node: it checks them, leaves out
// those that an earlier add has read, and tells what was left out or renamed. The
// commands add, share and publish use it.
package adding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node/files"
	homedir "allium/node/home"
	"allium/node/homefiles"
	"allium/protocols/b3"
)

// closingAfter is the time after which an add says at its end how fast it was.
const closingAfter = time.Second

// TellAdded says on standard error what an add has stored and how fast, if it took a while. The zero sum
// says nothing.
func TellAdded(a *cli.App, sum api.Added, took time.Duration) {
	if took >= closingAfter && sum.Files > 0 {
		_ = a.Tell(addTookText(sum, took)) // the add has its result
	}
}

// WithTotal reports to report that there are total bytes. A nil report stays nil.
func WithTotal(report api.ProgressFunc, total int64) api.ProgressFunc {
	if report == nil {
		return nil
	}
	return func(p api.Progress) {
		p.TotalBytes = total
		report(p)
	}
}

// Disk returns the tree of paths, without the home directory's files.
func Disk(a *cli.App, paths []string, onBad api.OnBadEntry) (*files.Disk, error) {
	home, err := a.HomePath()
	if err != nil {
		return nil, err
	}
	var own homefiles.Own
	if err := homedir.Check(home); !errors.Is(err, homedir.ErrNone) {
		own = homefiles.Of(home)
	}
	return files.NewDisk(paths, onBad, own), nil
}

// AddPath adds a file or directory to a node. Files that an earlier add has read are not read again. tell gets what
// is left out or renamed, before anything is stored.
func AddPath(
	ctx context.Context, a *cli.App, n api.Node, path string, o api.AddOptions, tell func(*api.AddNotes),
) (added api.Added, err error) {
	disk, err := Disk(a, []string{path}, o.OnBadEntry)
	if err != nil {
		return added, err
	}
	notes, err := disk.Check(ctx)
	if err != nil {
		return added, err
	}
	tell(notes)
	items, home, done, err := CachedItems(ctx, a, n, disk.Items(), false)
	if err != nil {
		return added, err
	}
	defer done()
	report, finish := a.Progress("adding " + filepath.Base(path))
	defer finish()
	send := files.SendItems
	if disk.OneFile() {
		send = files.SendFile
	}
	for one, err := range send(ctx, n, items, o, WithTotal(report, disk.Size())) {
		if err != nil {
			return added, err
		}
		added = one
	}
	NotePaths(ctx, a, home, []b3.Root{added.Root}, []string{path})
	added.Notes = joinNotes(notes, disk.LeftOut())
	return added, nil
}

// TellNotes says what an add is about to leave out or rename. With --json the
// answer has it instead.
func TellNotes(a *cli.App, n *api.AddNotes) {
	if n == nil || a.JSON {
		return
	}
	var b strings.Builder
	more := func(all int64, listed int) {
		if rest := all - int64(listed); rest > 0 {
			fmt.Fprintf(&b, "  and %d more\n", rest)
		}
	}
	if n.RenamedCount > 0 {
		fmt.Fprintf(&b, "allium: %s changed to Unicode normal form C:\n", printable.Count(n.RenamedCount, "name"))
		for _, e := range n.Renamed {
			fmt.Fprintf(&b, "  %s as %s\n", printable.Name(e.Path), printable.Name(e.As))
		}
		more(n.RenamedCount, len(n.Renamed))
	}
	if n.SkippedCount > 0 {
		fmt.Fprintf(&b, "allium: %s left out, so the directory is not added whole:\n",
			printable.Count(n.SkippedCount, "entry"))
		for _, e := range n.Skipped {
			fmt.Fprintf(&b, "  %s: %s\n", e.Path, printable.Text(e.Reason))
		}
		more(n.SkippedCount, len(n.Skipped))
	}
	_, _ = io.WriteString(a.Stderr, b.String())
}

// LateNotes tells what was left out while files were read, and returns n with it. n may be nil.
func LateNotes(a *cli.App, n *api.AddNotes, disk *files.Disk) *api.AddNotes {
	late := disk.LeftOut()
	TellNotes(a, late)
	return joinNotes(n, late)
}

// joinNotes returns the notes of an add before and after it read the files. Each may be nil.
func joinNotes(n, late *api.AddNotes) *api.AddNotes {
	if n == nil || late == nil {
		return cmp.Or(n, late)
	}
	all := *n
	all.SkippedCount += late.SkippedCount
	all.Skipped = slices.Concat(n.Skipped, late.Skipped)
	all.Skipped = all.Skipped[:min(len(all.Skipped), api.MaxNotes)]
	return &all
}

// addTookText says what an add has stored and in which time. It gives a speed only if all files were read.
func addTookText(sum api.Added, took time.Duration) string {
	fresh := sum.Bytes
	if sum.Reused > 0 {
		fresh = 0
	}
	said := "added " + printable.Count(sum.Files, "file") + ", " + term.Took(sum.Bytes, fresh, took)
	if sum.Reused > 0 {
		said += fmt.Sprintf("; %d of them were known and not read", sum.Reused)
	}
	return said
}
