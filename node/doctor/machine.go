package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/node/readiness/descriptors"
	"allium/protocols/status"
	"allium/store/bucket/s3"
)

// Machine are the parts of this machine that checks look at. Tests replace them.
type Machine struct {
	Root       string // of the file system below which proc, sys and run are read; "/" is the machine's
	Statfs     func(dir string) (FileSystem, error)
	OpenFiles  func() int64                            // how many files a process may have open; 0: not known
	Interfaces func() ([]netip.Prefix, error)          // the addresses of this machine
	Sync       func(dir string) (time.Duration, error) // writes 4 KiB to a file there, and makes them durable
}

// FileSystem describes the file system of a directory.
type FileSystem struct {
	Kind       string `json:"kind"`       // such as "ext4"; empty: not known
	Bytes      int64  `json:"bytes"`      // of the file system
	FreeBytes  int64  `json:"free_bytes"` // that this user can write
	Inodes     int64  `json:"inodes"`     // 0: it has no fixed number
	FreeInodes int64  `json:"free_inodes"`
}

// Network are the ways from this machine to others. Tests replace them.
type Network struct {
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Listen listens on "tcp" or "udp".
	Listen func(ctx context.Context, network, addr string) (io.Closer, error)
	// Resolve looks up a host name, or the TXT records of a name that begins with _dnsaddr.
	Resolve func(ctx context.Context, name string) error
	// Bucket lists the bucket.
	Bucket func(ctx context.Context, c s3.Config) error
}

// errUnknown says that the system does not tell.
var errUnknown = errors.New("this system does not tell")

// ThisMachine is the machine on which the process runs.
func ThisMachine() Machine {
	return Machine{
		Root: "/", Statfs: statfs, OpenFiles: descriptors.Limit, Interfaces: interfaces, Sync: timeSync,
	}
}

// ThisNetwork is the network of this machine.
func ThisNetwork() Network {
	return Network{Dial: (&net.Dialer{}).DialContext, Listen: listen, Resolve: resolve, Bucket: listBucket}
}

func interfaces() (all []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			ip, _ := netip.AddrFromSlice(n.IP)
			bits, _ := n.Mask.Size()
			all = append(all, netip.PrefixFrom(ip.Unmap(), bits))
		}
	}
	return all, err
}

func listen(ctx context.Context, network, addr string) (io.Closer, error) {
	if network == "udp" {
		return (&net.ListenConfig{}).ListenPacket(ctx, network, addr)
	}
	return (&net.ListenConfig{}).Listen(ctx, network, addr)
}

func resolve(ctx context.Context, name string) error {
	if strings.HasPrefix(name, "_dnsaddr.") {
		_, err := net.DefaultResolver.LookupTXT(ctx, name)
		return err
	}
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	return err
}

// listBucket lists the first object of a bucket: that needs the network, the bucket and valid credentials.
func listBucket(ctx context.Context, c s3.Config) error {
	b, err := s3.Open(c, s3.NewMeters(c, nil, nil))
	if err != nil {
		return err
	}
	defer b.Close()
	for _, err := range b.List(ctx, "") {
		return err
	}
	return nil
}

// syncRounds is the number of durable writes that are timed. The median counts.
const syncRounds = 5

// timeSync returns the median time of writing 4 KiB to a new file in dir and making them durable.
func timeSync(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = f.Close() // nothing of it is needed
		_ = os.Remove(f.Name())
	}()
	var took [syncRounds]time.Duration
	for i := range took {
		begun := time.Now()
		_, err := f.WriteAt(make([]byte, 4<<10), int64(i)*4<<10)
		if err := errors.Join(err, f.Sync()); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took[:])
	return took[syncRounds/2], nil
}

// read returns a small file below the root of the machine, without blanks around it.
func (m Machine) read(name string) (string, error) {
	f, err := os.Open(filepath.Join(m.Root, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	return strings.TrimSpace(string(p)), err
}

// maxProcFile bounds what is read of one file of the system, in bytes.
const maxProcFile = 1 << 20

// number returns the number in a file below the root of the machine.
func (m Machine) number(name string) (int64, error) {
	text, err := m.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// kernelNumber is number of a file that only Linux has. The result says why a check is skipped.
func (m Machine) kernelNumber(name string) (int64, *result) {
	n, err := m.number(name)
	if err != nil {
		r := skip(fmt.Sprintf("%s cannot be read", filepath.Join("/", name)))
		return 0, &r
	}
	return n, nil
}

// Reason returns the first part of a message for people: what is wrong, without what to do.
func Reason(err error) string {
	why, _, _ := strings.Cut(err.Error(), "; ")
	return why
}

// denied reports whether err says that this user may not do that.
func denied(err error) bool {
	return errors.Is(err, os.ErrPermission) || status.Of(err) == status.Forbidden
}
