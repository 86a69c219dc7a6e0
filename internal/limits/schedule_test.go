package limits

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item is who put it and as which of theirs.
type item struct{ key, n int }

// scheduleModel drives a schedule and a plain model of it with the same steps.
type scheduleModel struct {
	t        interface{ Fatalf(string, ...any) }
	r        *schedule[int, item]
	capacity int
	workers  int

	waiting map[int][]item
	running map[int]int
	next    map[int]int
	ahead   map[int]map[int]int // of each key with items: services since of every other that ran as many
	put, got, shed,
	refused int
}

func newScheduleModel(t interface{ Fatalf(string, ...any) }, capacity, workers int) *scheduleModel {
	return &scheduleModel{
		t: t, r: newSchedule[int, item](capacity, workers), capacity: capacity, workers: workers,
		waiting: map[int][]item{}, running: map[int]int{}, next: map[int]int{}, ahead: map[int]map[int]int{},
	}
}

func (m *scheduleModel) mayBeServed(k int) bool {
	return len(m.waiting[k]) > 0 && m.running[k] < m.workers-m.busy()
}

// busy is how many workers run something.
func (m *scheduleModel) busy() (n int) {
	for _, r := range m.running {
		n += r
	}
	return n
}

// turn starts and ends the count of a key that waits for its turn.
func (m *scheduleModel) turn(k int) {
	if len(m.waiting[k]) == 0 {
		delete(m.ahead, k)
	} else if m.ahead[k] == nil {
		m.ahead[k] = map[int]int{}
	}
}

func (m *scheduleModel) longest() int {
	n := 0
	for _, items := range m.waiting {
		n = max(n, len(items))
	}
	return n
}

// doPut is TryPut's rule.
func (m *scheduleModel) doPut(k int) {
	v := item{k, m.next[k]}
	m.next[k]++
	m.put++
	if m.r.full() != (m.total() == m.capacity) {
		m.t.Fatalf("full: %v with %d of %d", m.r.full(), m.total(), m.capacity)
	}
	if m.r.full() {
		shorter := len(m.waiting[k])+1 < m.longest()
		if m.r.shorter(k) != shorter {
			m.t.Fatalf("shorter(%d): %v with %v", k, !shorter, m.waiting)
		}
		if !shorter {
			m.refused++
			return
		}
		longest := m.longest()
		out := m.r.shed()
		items := m.waiting[out.key]
		at := len(items) - 1
		if len(items) != longest || items[at] != out {
			m.t.Fatalf("shed %v of %v", out, m.waiting)
		}
		m.waiting[out.key] = slices.Delete(items, at, at+1)
		m.shed++
		m.turn(out.key)
	}
	m.r.put(k, v)
	m.waiting[k] = append(m.waiting[k], v)
	m.turn(k)
}

func (m *scheduleModel) doGet() {
	v, ok := m.r.get()
	if !ok {
		for k := range m.waiting {
			if m.mayBeServed(k) {
				m.t.Fatalf("nobody is served, and key %d may be", k)
			}
		}
		return
	}
	if !m.mayBeServed(v.key) || m.waiting[v.key][0] != v {
		m.t.Fatalf("got %v of %v, running %v", v, m.waiting, m.running)
	}
	delete(m.ahead, v.key) // it had its turn
	for k, others := range m.ahead {
		switch {
		case m.running[k] < m.running[v.key]:
			m.t.Fatalf("key %d is served before %d, running %v", v.key, k, m.running)
		case m.running[k] > m.running[v.key]:
		case others[v.key] == 1:
			m.t.Fatalf("key %d waits, and key %d was served twice", k, v.key)
		default:
			others[v.key]++
		}
	}
	m.got++
	m.waiting[v.key] = m.waiting[v.key][1:]
	m.running[v.key]++
	m.turn(v.key)
}

func (m *scheduleModel) doDone(k int) {
	if m.running[k] == 0 {
		return
	}
	m.r.done(k)
	m.running[k]--
	delete(m.ahead, k) // it is the last of those that run as many
	m.turn(k)
}

func (m *scheduleModel) total() (n int) {
	for _, items := range m.waiting {
		n += len(items)
	}
	return n
}

// check compares what can be seen after every step.
func (m *scheduleModel) check() {
	keys := 0
	for k := range m.next {
		if len(m.waiting[k]) > 0 || m.running[k] > 0 {
			keys++
		}
	}
	if m.r.waiting != m.total() || m.r.waiting > m.capacity || m.r.longest != m.longest() || len(m.r.keys) != keys {
		m.t.Fatalf("%d waiting, longest %d, %d keys; want %d, %d, %d", m.r.waiting,
			m.r.longest, len(m.r.keys), m.total(),
			m.longest(), keys)
	}
}

// empty serves what is left: everything is handed out once.
func (m *scheduleModel) empty() {
	for before := -1; before != m.got; {
		before = m.got
		for k, n := range m.running {
			for range n {
				m.doDone(k)
			}
		}
		m.doGet()
		m.check()
	}
	if m.got+m.shed+m.refused != m.put || len(m.r.keys) != 0 {
		m.t.Fatalf("%d put: %d got, %d shed, %d refused; %d keys left", m.put, m.got, m.shed, m.refused, len(m.r.keys))
	}
}

// FuzzSchedule reads steps from the input: the low bits say what, the high bits
// of which key.
func FuzzSchedule(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{0x00, 0x10, 0x20, 0x00, 0x10, 0x01, 0x01, 0x02, 0x12, 0x01})
	f.Add(uint8(4), uint8(2), []byte{0x00, 0x00, 0x00, 0x00, 0x10, 0x10, 0x20, 0x01, 0x01, 0x01, 0x02})
	f.Add(uint8(8), uint8(1), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x10\x20\x30\x40\x10\x20\x01\x01\x01\x01\x01"))
	f.Add(uint8(1), uint8(1), []byte{0x00, 0x10, 0x01, 0x10, 0x01, 0x02, 0x12})
	f.Add(uint8(5), uint8(5), []byte("\x00\x01\x00\x01\x00\x01\x02\x02\x02\x10\x11\x12"))
	f.Fuzz(func(t *testing.T, capacity, workers uint8, steps []byte) {
		m := newScheduleModel(t, 1+int(capacity)%64, 1+int(workers)%12)
		for _, step := range steps[:min(len(steps), 4096)] {
			switch k := int(step >> 4); step & 3 {
			case 0, 3:
				m.doPut(k)
			case 1:
				m.doGet()
			case 2:
				m.doDone(k)
			}
			m.check()
		}
		m.empty()
	})
}

func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newScheduleModel(t, rapid.IntRange(1, 40).Draw(t, "capacity"), rapid.IntRange(1, 12).Draw(t, "workers"))
		key := rapid.IntRange(0, 7)
		t.Repeat(map[string]func(*rapid.T){
			"put":  func(t *rapid.T) { m.doPut(key.Draw(t, "key")) },
			"get":  func(*rapid.T) { m.doGet() },
			"done": func(t *rapid.T) { m.doDone(key.Draw(t, "key")) },
			"":     func(*rapid.T) { m.check() },
		})
		m.empty()
	})
}
