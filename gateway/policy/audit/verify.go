package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// VerifyOptions modify Verify.
type VerifyOptions struct {
	Head   string             // hash of a record that the log must contain, in hex; empty: none
	Record func(Record) error // called with every record, in order; its error ends Verify; may be nil
}

// Report is the result of Verify.
type Report struct {
	Files   int       `json:"files"`
	Records uint64    `json:"records"`
	First   uint64    `json:"first"` // number of the first record; above 1 if older files were removed
	Last    uint64    `json:"last"`  // number of the last record
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Head    string    `json:"head"`           // hash of the last record
	Cuts    int       `json:"cuts"`           // unfinished records that the node cut off after crashes
	Half    int64     `json:"half,omitempty"` // bytes of an unfinished record at the end
}

// Verify reads a whole log and checks its chain of hashes. paths is the log's
// directory, or a list of its files in order. Without the directory's head file,
// Verify cannot tell whether the end is missing.
//
// A log that was changed is corrupt, and the error names the file and the line. A
// node may write to the log meanwhile. Verify uses one line of memory.
func Verify(ctx context.Context, paths []string, o VerifyOptions) (Report, error) {
	v := &verifier{ctx: ctx, o: o}
	if o.Head != "" {
		want, err := parseHash(o.Head)
		if err != nil {
			return v.rep, status.Errorf(status.BadRequest, "%q is not the hash of a record: want 64 hex digits", o.Head)
		}
		v.want = &want
	}
	if len(paths) == 0 {
		return v.rep, status.Errorf(status.BadRequest, "name the directory of a log, or its files")
	}
	fi, err := os.Stat(paths[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v.rep, status.Errorf(status.NotFound, "there is no log at %s", paths[0])
	case err != nil:
		return v.rep, fmt.Errorf("audit: %w", err)
	case !fi.IsDir():
		err = v.files(paths)
	case len(paths) > 1:
		return v.rep, status.Errorf(status.BadRequest, "name one directory, or files")
	default:
		err = v.directory(paths[0])
	}
	if err == nil && v.want != nil {
		err = status.Errorf(status.Corrupt, "no record has the hash %s: records were removed, or the log was "+
			"written anew", o.Head)
	}
	v.rep.Last, v.rep.Head = v.at.seq, v.at.hash.Hex()
	return v.rep, err
}

type verifier struct {
	ctx  context.Context
	o    VerifyOptions
	want *b3.Root // hash that must still be found; nil: none
	rep  Report
	at   position // last record verified
}

// directory verifies the files of a directory. They must contain the record that
// the head file names; records after it are verified too.
func (v *verifier) directory(dir string) error {
	head, err := readHead(dir)
	if status.Of(err) == status.NotFound {
		numbers, listErr := listFiles(dir)
		if listErr == nil && len(numbers) > 0 {
			return status.Errorf(status.Corrupt,
				"%w, so that its end cannot be proved; name the files to verify what is there",
				err)
		}
	}
	if err != nil {
		return err
	}
	numbers, err := listFiles(dir)
	if err != nil {
		return err
	}
	passed := head.seq == 0
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			return status.Errorf(status.Corrupt, "%s is missing", fileName(numbers[i-1]+1))
		}
		err := v.file(filepath.Join(dir, fileName(n)), i == len(numbers)-1, func() { passed = passed || v.at == head })
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue // the node removed it just now
		}
		if err != nil {
			return err
		}
	}
	if !passed {
		return status.Errorf(status.Corrupt, "the head file of %s names record %d with hash %s, and the log ends "+
			"at record %d without it: its end was cut off or changed", dir, head.seq, head.hash.Hex(), v.at.seq)
	}
	return nil
}

func (v *verifier) files(paths []string) error {
	for i, p := range paths {
		if err := v.file(p, i == len(paths)-1, func() {}); err != nil {
			return err
		}
	}
	return nil
}

// file verifies one file and calls passed after each record. Only the last file of
// a log may end in an unfinished record.
func (v *verifier) file(name string, last bool, passed func()) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	v.rep.Files++
	var size int64
	err = scan(f, func(line []byte) error {
		if err := v.record(line, size == 0); err != nil {
			return err
		}
		size += int64(len(line)) + 1
		passed()
		return context.Cause(v.ctx)
	})
	if errors.Is(err, errUnfinished) {
		if !last {
			return status.Errorf(status.Corrupt, "the last line of %s has no end", name)
		}
		fi, err := f.Stat()
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		v.rep.Half = max(0, fi.Size()-size)
		return nil
	}
	if err == nil && size == 0 && !last {
		return status.Errorf(status.Corrupt, "%s is empty, and there are files after it: its records were removed",
			name)
	}
	return err
}

// record verifies one line. first says that it is the first line of its file.
func (v *verifier) record(line []byte, first bool) error {
	r, err := parse(line)
	if err != nil {
		return err
	}
	if first != (r.Kind == Begin) {
		return status.Errorf(status.Corrupt, "a file begins with a record of kind %s and has no other: records were "+
			"removed or put in", Begin)
	}
	if v.rep.Records == 0 {
		hash, err := parseHash(r.Prev)
		switch {
		case err != nil:
			return status.Errorf(status.Corrupt, "it does not name the record before it")
		case r.Seq == 1 && !hash.IsZero():
			return status.Errorf(status.Corrupt, "it is the first record and names one before it")
		}
		v.at = position{seq: r.Seq - 1, hash: hash}
		v.rep.First, v.rep.From = r.Seq, r.Time
	}
	if err := r.follows(v.at.seq, v.at.hash); err != nil {
		return err
	}
	switch r.Kind {
	case Damaged:
		return status.Errorf(status.Corrupt, "the node found the log before it damaged: %s", r.Detail)
	case Cut:
		v.rep.Cuts++
	}
	v.at = position{seq: r.Seq, hash: hashOf(line)}
	v.rep.Records++
	v.rep.To = r.Time
	if v.want != nil && *v.want == v.at.hash {
		v.want = nil
	}
	if v.o.Record != nil {
		return v.o.Record(r)
	}
	return nil
}
