package testkit

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inNamespaces is set in the process that InNamespaces starts.
const inNamespaces = "ALLIUM_TEST_IN_NAMESPACES"

// InNamespaces runs a top-level test again, in a new process that is root in a new user and mount namespace. Its mounts
// and the kernel limits that it sets do not affect the machine. It returns true in that process alone. It skips the
// test where such namespaces cannot be made.
func InNamespaces(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespaces) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Skipf("no user namespace can be made here: %v", err)
	} else if err != nil {
		t.Fatalf("in its namespaces: %v\n%s", err, out)
	}
	t.Logf("in its namespaces:\n%s", out)
	return false
}
