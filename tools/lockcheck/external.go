package main

import (
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// module is the path before the packages that are analyzed. What others do is in the lists below.
const module = "allium"

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// ioPackages are the packages whose functions and methods do I/O, with those that do not: "Name" is a function or all
// methods of a type, "Type.Name" one method, and "Name*" all that begin so.
var ioPackages = map[string]string{
	"os": "" +
		"Is* FileMode PathError LinkError SyscallError ErrProcessDone Getenv LookupEnv Environ Expand* Getpid " +
		"Getppid Getuid Geteuid Getgid Getegid Getpagesize TempDir DirFS SameFile NewSyscallError NewFile Exit " +
		"File.Name File.Fd FileInfo DirEntry ProcessState",
	"os/exec": "Error ExitError Cmd.String Cmd.Environ",
	"os/user": "",
	"io/fs": "" +
		"FileMode FileInfo DirEntry.Name DirEntry.IsDir DirEntry.Type PathError ValidPath FormatFileInfo " +
		"FileInfoToDirEntry Sub",
	"io":        "MultiReader MultiWriter LimitReader TeeReader NewSectionReader NewOffsetWriter NopCloser Pipe",
	"io/ioutil": "",
	"bufio": "" +
		"New* Reader.Buffered Reader.Size Reader.Reset Writer.Available Writer.Buffered Writer.Size Writer.Reset " +
		"Scanner.Buffer Scanner.Bytes Scanner.Text Scanner.Err Scanner.Split Scan*",
	"net": "" +
		"IP IPNet IPMask IPAddr TCPAddr UDPAddr UnixAddr HardwareAddr Addr Flags Error OpError DNSError AddrError " +
		"ParseError UnknownNetworkError InvalidAddrError Parse* JoinHostPort SplitHostPort IPv4* CIDRMask " +
		"*Addr.String Conn.LocalAddr Conn.RemoteAddr Listener.Addr PacketConn.LocalAddr TCPConn.LocalAddr " +
		"TCPConn.RemoteAddr UDPConn.LocalAddr TCPListener.Addr Conn.Set*Deadline TCPAddrFromAddrPort " +
		"UDPAddrFromAddrPort Buffers Pipe",
	"net/http": "" +
		"Header New* StatusText Request.Context Request.WithContext Request.Clone Request.Cookie* " +
		"Request.PathValue Request.SetPathValue Request.AddCookie Request.UserAgent Request.Referer " +
		"Request.BasicAuth Request.SetBasicAuth Request.ProtoAtLeast Cookie SetCookie CanonicalHeaderKey " +
		"DetectContentType Parse* ServeMux.Handle* ServeMux.Handler StripPrefix TimeoutHandler Handler* " +
		"HandlerFunc MaxBytes* Transport.Clone Response.Cookies Response.Location ConnState ResponseWriter.Header " +
		"Protocols PushOptions ProtocolError",
	"net/http/httptrace": "ContextClientTrace WithClientTrace",
	"syscall":            "Errno Signal Getpagesize Getpid NsecToTimespec Rlimit Timespec",
	"golang.org/x/sys/unix": "" +
		"ByteSliceFromString BytePtrFromString NsecToTimespec ErrnoName SignalName Errno Signal Timespec Major " +
		"Minor Mkdev",
	"log": "New Logger.SetPrefix Logger.Prefix Logger.Flags",
	"log/slog": "" +
		"Attr Value Level LevelVar New* Any Bool Duration Float64 Group* Int* String* Time* Uint* Record " +
		"Logger.With* Logger.Handler Logger.Enabled Handler.Enabled Handler.With* Default SetDefault Source Kind",
	"database/sql": "Null*",
	"crypto/tls": "" +
		"*Config.Clone Config X509KeyPair ConnectionState Certificate Dialer CipherSuite* VersionName " +
		"ClientHelloInfo NewListener Conn.ConnectionState Conn.NetConn",
	"path/filepath": "" +
		"Base Clean Dir Ext FromSlash HasPrefix IsAbs IsLocal Join Localize Match Rel Split SplitList ToSlash " +
		"VolumeName",
	"zombiezen.com/go/sqlite":         "ErrCode ResultCode",
	"zombiezen.com/go/sqlite/sqlitex": "",
	"github.com/cockroachdb/pebble": "" +
		"IsCorruptionError Comparer DefaultComparer Batch.Set Batch.Delete Batch.Len Batch.Count Batch.Empty " +
		"Batch.Reset Batch.SingleDelete Batch.DeleteRange Batch.Repr Batch.NewBatch* DB.NewBatch Options",
	"github.com/cockroachdb/pebble/vfs": "NewMem NewStrictMem *FS.Path*",
	"github.com/fsnotify/fsnotify":      "Op Event",
	"github.com/ipfs/go-datastore":      "Key NewKey RawKey KeyWithNamespaces NewMapDatastore",
	"github.com/quic-go/quic-go":        "*Error",
	"github.com/libp2p/go-libp2p/core/network": "" +
		"Conn.RemotePeer Conn.LocalPeer Conn.RemoteMultiaddr Conn.LocalMultiaddr Conn.ID Conn.Stat Conn.ConnState " +
		"Conn.IsClosed Stream.Conn Stream.ID Stream.Protocol Stream.Stat Connectedness Direction Reachability " +
		"With* Get* Stats ConnStats",
}

// waitFunctions wait for other goroutines, or for time to pass.
var waitFunctions = []string{
	"time.Sleep", "(*sync.WaitGroup).Wait",
	"(*golang.org/x/sync/errgroup.Group).Wait", "(*golang.org/x/sync/errgroup.Group).Go",
	"(*golang.org/x/sync/semaphore.Weighted).Acquire",
	"(*golang.org/x/sync/singleflight.Group).Do",
}

// laterFunctions keep the functions that they are given, and do not call them before they return.
var laterFunctions = []string{
	"time.AfterFunc", "context.AfterFunc", "(*sync.WaitGroup).Go", "(*golang.org/x/sync/errgroup.Group).Go",
	"runtime.AddCleanup", "runtime.SetFinalizer", "sync.OnceFunc", "sync.OnceValue", "sync.OnceValues",
	"github.com/prometheus/client_golang/prometheus.NewGaugeFunc",
	"github.com/prometheus/client_golang/prometheus.NewCounterFunc",
}

// harmlessInterfaces have methods that compute, by contract: no implementation does I/O, waits or locks more than a leaf.
var harmlessInterfaces = []string{
	"error", "fmt.Stringer", "context.Context", "hash.Hash", "hash.Hash32", "hash.Hash64", "sort.Interface",
	"container/heap.Interface", "crypto/cipher.AEAD", "crypto/cipher.Block", "math/rand.Source", "math/rand/v2.Source",
	"reflect.Type", "crypto.Signer", "crypto.PublicKey",
	"interface{Timeout() bool}", "interface{Status() allium/protocols/status.Outcome}", // of errors
	"allium/internal/heaviest.Item", // its weight, and where its index is
	"github.com/fxamacker/cbor/v2.EncMode", "github.com/fxamacker/cbor/v2.DecMode",
	"github.com/prometheus/client_golang/prometheus.Counter", "github.com/prometheus/client_golang/prometheus.Gauge",
	"github.com/prometheus/client_golang/prometheus.Observer",
	"github.com/prometheus/client_golang/prometheus.Histogram", "github.com/prometheus/client_golang/prometheus.Metric",
	"github.com/libp2p/go-libp2p/core/crypto.PubKey", "github.com/libp2p/go-libp2p/core/crypto.PrivKey",
	"github.com/libp2p/go-libp2p/core/crypto.Key", "github.com/multiformats/go-multiaddr.Multiaddr",
}

// harmlessErrorMethods are those of errors and other values.
var harmlessErrorMethods = []string{"Error", "Unwrap", "Is", "As", "Timeout", "Temporary", "String"}

// external returns what a function or method of another module does, and false when it only computes.
func (c *check) external(fn *types.Func, args []ssa.Value) (effect, bool) {
	full := fn.FullName()
	if slices.Contains(waitFunctions, full) {
		return effect{Kind: waits, What: shorten(full)}, true
	}
	path := unversioned(fn.Pkg().Path())
	var recv types.Type
	if v := fn.Signature().Recv(); v != nil {
		recv = v.Type()
	}
	if harmless, ok := ioPackages[path]; ok && path != "io" && path != "bufio" {
		if listed(harmless, fn, recv) || slices.Contains(harmlessErrorMethods, fn.Name()) {
			return effect{}, false
		}
		return effect{Kind: doesIO, What: shorten(full)}, true
	} else if ok && listed(harmless, fn, recv) {
		return effect{}, false
	} else if path == "bufio" {
		return effect{Kind: doesIO, What: shorten(full)}, true
	}
	if strings.HasPrefix(fn.Name(), "New") {
		return effect{}, false // keeps the reader or writer
	}
	for _, arg := range args { // io.Copy, fmt.Fprintf, json's Decode: what they read or write may be a file
		if !reads(arg.Type()) {
			continue
		}
		for _, t := range c.dynamicTypes(arg, map[ssa.Value]bool{}) {
			if t == nil || !inMemory(t) {
				return effect{Kind: doesIO, What: shorten(full)}, true
			}
		}
	}
	return effect{}, false
}

// unversioned returns an import path without the major version of its module.
func unversioned(path string) string { return majorVersion.ReplaceAllString(path, "$1") }

var majorVersion = regexp.MustCompile(`/v[0-9]+(/|$)`)

// listed reports whether a list of ioPackages names fn, a method of recv or a function.
func listed(list string, fn *types.Func, recv types.Type) bool {
	name, typ := fn.Name(), ""
	if recv != nil {
		typ = typeName(recv)
	}
	for _, entry := range strings.Fields(list) {
		of, method, both := strings.Cut(entry, ".")
		if !both {
			if first := typ; matches(entry, first) || first == "" && matches(entry, name) {
				return true
			}
		} else if matches(of, typ) && matches(method, name) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	begin, end, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	return name != "" && strings.HasPrefix(name, begin) && strings.HasSuffix(name, end)
}

func typeName(t types.Type) string {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// ofInterface returns what a method of an interface may do, and false when it only computes.
func (c *check) ofInterface(fn *types.Func, t types.Type) (effect, bool) {
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		t = param.Constraint()
	}
	named, _ := types.Unalias(t).(*types.Named)
	full := "error"
	switch {
	case named == nil:
		full = t.String()
	case named.Obj().Pkg() != nil:
		full = named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	if slices.Contains(harmlessInterfaces, full) {
		return effect{}, false
	}
	if named != nil && c.locks.computesDeclared(named.Obj()) {
		return effect{}, false
	}
	what := shorten(full) + "." + fn.Name()
	if fn.Pkg() == nil {
		return effect{}, false // error.Error
	}
	switch fn.FullName() {
	case "(context.Context).Done", "(context.Context).Err", "(context.Context).Value", "(context.Context).Deadline":
		return effect{}, false
	}
	if harmless, ok := ioPackages[unversioned(fn.Pkg().Path())]; ok {
		if listed(harmless, fn, t) || slices.Contains(harmlessErrorMethods, fn.Name()) {
			return effect{}, false
		}
		return effect{Kind: doesIO, What: what}, true
	}
	return effect{Kind: callsBack, What: what + ", an interface's method"}, true
}

// reads reports whether t is an interface that reads or writes.
func reads(t types.Type) bool {
	if !types.IsInterface(t) {
		return false
	}
	for _, name := range []string{"Read", "Write", "ReadAt", "WriteAt"} {
		if obj, _, _ := types.LookupFieldOrMethod(t, false, nil, name); obj != nil {
			return true
		}
	}
	return false
}

// inMemory reports whether what t reads and writes is in memory.
func inMemory(t types.Type) bool {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	path := named.Obj().Pkg().Path()
	return path == "bytes" || path == "strings" || path == "hash" || strings.HasPrefix(path, "crypto/") ||
		path == "lukechampine.com/blake3"
}

func callsLater(fn *types.Func) bool { return slices.Contains(laterFunctions, fn.FullName()) }

// returnsCaller reports whether the function that fn returns calls those that fn is given, and those that it is given
// itself: iterators as maps.Keys, and sync.OnceValue.
func returnsCaller(fn *types.Func) bool {
	switch fn.Pkg().Path() {
	case "maps", "slices", "strings", "bytes":
		return true
	case "sync":
		return strings.HasPrefix(fn.Name(), "Once")
	}
	return false
}

// harmlessFunction reports whether calls of functions of type t only compute: clocks, and the cancellation of
// contexts.
func harmlessFunction(t types.Type) bool {
	if isNamed(t, "context", "CancelFunc") || isNamed(t, "context", "CancelCauseFunc") {
		return true
	}
	sig, ok := t.Underlying().(*types.Signature)
	return ok && sig.Params().Len() == 0 && sig.Results().Len() == 1 && isNamed(sig.Results().At(0).Type(), "time", "Time")
}
