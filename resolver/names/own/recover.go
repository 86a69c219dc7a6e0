package own

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/name"
	"allium/protocols/status"
)

// damagedExt ends the name of a damaged file that was set aside. A number follows, from 1 to maxAside.
const damagedExt = ".damaged-"

// maxAside bounds the damaged files of a zone. Beyond it the zone is refused until some are removed.
const maxAside = 8

// recover sets the damaged file of a zone aside and writes a new one, with the records in its lines that
// can still be verified and those that this node holds for others: of each label the highest. cause is
// what is wrong with the file. A crash at any point leaves the damaged file, the new one, or both.
func (s *Service) recover(zone name.Zone, text []byte, cause error) ([]name.Signed, error) {
	file := fileOf(s.cfg.Home, zone)
	read, lost := salvage(text, zone)
	all := highest(slices.Concat(read, s.deps.Held(zone)))
	all = all[:min(len(all), maxLabels)]
	aside, err := setAside(file)
	if err == nil {
		err = s.replace(file, encode(all))
	}
	if err != nil {
		return nil, status.Errorf(status.Corrupt, "%s is damaged (%w), and cannot be replaced: %w; restore it from a "+
			"backup, or remove it and publish its names again", file, cause, err)
	}
	s.deps.Log.Error("the file with the records of a zone was damaged, and is set aside. Publish the names again that "+
		"`allium name ls` does not list", "zone", zone, "err", cause, "aside", aside, "records", len(all),
		"lines_lost", lost)
	return all, nil
}

// salvage returns the records in a damaged file that can be verified, whatever is around them, and the
// number of lines without one.
func salvage(text []byte, zone name.Zone) (records []name.Signed, lost int) {
	text = text[:min(len(text), maxFile)]
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 || string(line) == head {
			continue
		}
		envelope, err := base64.StdEncoding.Strict().DecodeString(string(line))
		rec, invalid := name.Verify(envelope)
		if err != nil || invalid != nil || rec.Name.Zone != zone {
			lost++
			continue
		}
		records = append(records, rec)
	}
	return records, lost
}

// highest returns of each label the record with the highest sequence number, in the byte order of the
// labels.
func highest(records []name.Signed) []name.Signed {
	slices.SortStableFunc(records, func(a, b name.Signed) int {
		return cmp.Or(strings.Compare(a.Name.Label.String(), b.Name.Label.String()), cmp.Compare(b.Seq, a.Seq))
	})
	return slices.CompactFunc(records, func(a, b name.Signed) bool { return a.Name == b.Name })
}

// setAside gives a file a second name, and returns that.
func setAside(file string) (aside string, err error) {
	for i := 1; i <= maxAside; i++ {
		aside = file + damagedExt + strconv.Itoa(i)
		if err = os.Link(file, aside); !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
		if sameFile(file, aside) { // a recovery that was cut short
			return aside, nil
		}
	}
	return "", status.Errorf(status.Conflict, "there are %d damaged files of the zone already; remove them", maxAside)
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, other := os.Stat(b)
	return err == nil && other == nil && os.SameFile(x, y)
}

// lost returns the record that the peers have in the place of one that was recovered, if it is newer.
func (t *table) lost(rec name.Signed, found name.Versions) (newer name.Signed, ok bool) {
	own, known := t.get(rec.Name)
	if !known || !own.recovered || found.Seq() <= rec.Seq || found.Equivocates() {
		return name.Signed{}, false
	}
	return found.Current()
}

// adopt takes up a record of the zone that this node has lost, and writes it. The caller works on it.
func (s *Service) adopt(ctx context.Context, rec name.Signed) error {
	release, err := s.writes.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if own, _ := s.table.get(rec.Name); own.Seq >= rec.Seq {
		return errReplaced
	}
	now := s.deps.Now()
	all, err := s.table.with(rec, now)
	if err != nil {
		return err
	}
	if err := s.replace(fileOf(s.cfg.Home, rec.Name.Zone), encode(all)); err != nil {
		return status.Errorf(status.Of(err), "the record is not taken up: %w", err)
	}
	s.table.set(rec, true, true, now)
	s.deps.Log.Info("a lost record of an own name was found with the peers", "name", rec.Name, "seq", rec.Seq)
	return nil
}
