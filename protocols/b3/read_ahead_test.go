package b3

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestSectionReadsOneAhead: while a group is used the next one was asked for,
// and no other.
func TestSectionReadsOneAhead(t *testing.T) {
	const n = 12
	o := newObject(t, n*GroupSize)
	synctest.Test(t, func(t *testing.T) {
		src := &countingSource{Source: o.source()}
		queue := NewHashQueue(2)
		s := queue.Reader(o.root, o.size(), src).Section(0, -1)
		defer s.Close()
		var got bytes.Buffer
		used := int64(0)
		_, err := s.WriteTo(writerFunc(func(p []byte) (int, error) {
			synctest.Wait() // until nobody can do more
			used++
			if asked := src.groups.Load(); asked != min(used+1, n) {
				t.Errorf("%d groups were asked for while group %d was used", asked, used-1)
			}
			return got.Write(p)
		}))
		if err != nil || used != n || !bytes.Equal(got.Bytes(), o.data) {
			t.Error(used, err)
		}
		if running := queue.readers.Load(); running != 0 {
			t.Errorf("%d helpers run after the end", running)
		}
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestSectionOfOneGroup takes no helper.
func TestSectionOfOneGroup(t *testing.T) {
	o := newObject(t, 3*GroupSize)
	s := NewReader(o.root, o.size(), o.source()).Section(GroupSize, 2*GroupSize)
	defer s.Close()
	if _, err := s.WriteTo(io.Discard); err != nil || s.next != nil {
		t.Error(err, s.next)
	}
}

// TestSectionGroup gives the range group by group, after a Read what it left.
func TestSectionGroup(t *testing.T) {
	o := newObject(t, 3*GroupSize+9)
	for name, r := range map[string]*Reader{"files": NewReader(o.root, o.size(), o.source()),
		"memory": o.memory(t).Reader()} {
		s := r.Section(5, 3*GroupSize+4)
		defer s.Close()
		got := make([]byte, 2)
		if _, err := io.ReadFull(s, got); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{GroupSize - 7, GroupSize, GroupSize, 4} {
			p, err := s.Group()
			if err != nil || len(p) != want {
				t.Fatalf("%s: %d bytes, %v, want %d", name, len(p), err, want)
			}
			got = append(got, p...)
		}
		if p, err := s.Group(); !errors.Is(err, io.EOF) || p != nil || s.left() != 0 ||
			!bytes.Equal(got, o.data[5:3*GroupSize+4]) {
			t.Errorf("%s: at the end: %d bytes, %v", name, len(p), err)
		}
	}
}

// TestSectionClose at any place ends the helper, and waits for its read.
func TestSectionClose(t *testing.T) {
	const n = 5
	o := newObject(t, n*GroupSize)
	for upto := range n {
		src := &slowSource{Source: o.source()}
		queue := NewHashQueue(2)
		s := queue.Reader(o.root, o.size(), src).Section(0, -1)
		if _, err := io.ReadFull(s, make([]byte, upto*GroupSize+1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if src.reading.Load() != 0 || queue.readers.Load() != 0 {
			t.Fatalf("after %d groups: %d reads and %d helpers run on", upto, src.reading.Load(), queue.readers.Load())
		}
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, errSectionClosed) {
			t.Fatal(err)
		}
	}
}

// slowSource lets others run in the middle of each read.
type slowSource struct {
	Source
	reading atomic.Int64
}

func (s *slowSource) ReadGroup(g int64, p []byte) (int, error) {
	s.reading.Add(1)
	defer s.reading.Add(-1)
	n, err := s.Source.ReadGroup(g, p)
	runtime.Gosched()
	return n, err
}

// TestSectionAheadFails: what was proved before is given, then the error, again
// and again.
func TestSectionAheadFails(t *testing.T) {
	const n = 6
	for bad := range int64(n) {
		o := newObject(t, n*GroupSize)
		o.data[bad*GroupSize+600] ^= 1
		s := NewHashQueue(1).Reader(o.root, o.size(), o.source()).Section(0, -1)
		var got bytes.Buffer
		at, err := s.WriteTo(&got)
		var ge *GroupError
		if at != bad*GroupSize || !errors.Is(err, ErrCorrupt) || !errors.As(err, &ge) || ge.Group != bad {
			t.Errorf("group %d is damaged: %d bytes, %v", bad, at, err)
		}
		if !bytes.Equal(got.Bytes(), o.data[:at]) {
			t.Errorf("group %d is damaged: the bytes before it are wrong", bad)
		}
		if m, again := s.Read(make([]byte, 1)); m != 0 || !errors.Is(again, ErrCorrupt) {
			t.Errorf("read again: %d, %v", m, again)
		}
		s.Close()
	}
}

// TestSectionsAtOnce: there are no more helpers than cores, and who gets none
// reads as well.
func TestSectionsAtOnce(t *testing.T) {
	const n = 8
	o := newObject(t, n*GroupSize+77)
	src := o.source()
	const cores = 3
	queue := NewHashQueue(cores)
	r := queue.Reader(o.root, o.size(), src)
	sections := make([]*Section, cores+3)
	helped := 0
	for i := range sections { // all are held after their first group
		sections[i] = r.Section(0, -1)
		defer sections[i].Close()
		if _, err := sections[i].Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if sections[i].next != nil {
			helped++
		}
	}
	if helped != cores {
		t.Errorf("%d helpers on %d cores", helped, cores)
	}
	var wg sync.WaitGroup
	for _, s := range sections {
		wg.Go(func() {
			var got bytes.Buffer
			if _, err := s.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), o.data[1:]) {
				t.Error(got.Len(), err)
			}
		})
	}
	wg.Wait()
	if running := queue.readers.Load(); running != 0 {
		t.Errorf("%d helpers run after the end", running)
	}
}

// TestSectionAllocs: what a section allocates does not grow with its length.
func TestSectionAllocs(t *testing.T) {
	o := newObject(t, 70*GroupSize)
	r := NewReader(o.root, o.size(), o.source())
	allocs := func(groups int64) float64 {
		return testing.AllocsPerRun(20, func() {
			s := r.Section(0, groups*GroupSize)
			defer s.Close()
			if n, err := s.WriteTo(io.Discard); err != nil || n != groups*GroupSize {
				t.Fatal(n, err)
			}
		})
	}
	allocs(70)
	if short, long := allocs(10), allocs(70); long > short+1 { // a pool may be emptied on the way
		t.Errorf("%v allocations for 10 groups, %v for 70", short, long)
	}
}
