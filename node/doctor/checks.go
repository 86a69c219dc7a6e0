package doctor

import "context"

// check is one thing that is looked at.
type check struct {
	Check
	onNode    bool // it needs a running node
	onMachine bool // it looks at the home directory or the machine of the node
	run       func(ctx context.Context, e *exam) result
}

// Check describes a check.
type Check struct {
	Name string
	Asks string // the question that it answers
}

// The kinds of checks.
func onMachine(name, asks string, run func(context.Context, *exam) result) check {
	return check{Check: Check{name, asks}, onMachine: true, run: run}
}

func onNode(name, asks string, run func(context.Context, *exam) result) check {
	return check{Check: Check{name, asks}, onNode: true, run: run}
}

func anywhere(name, asks string, run func(context.Context, *exam) result) check {
	return check{Check: Check{name, asks}, run: run}
}

// checks are all checks.
var checks = []check{
	anywhere("node", "Does the node that runs answer?", checkAnswers),
	onMachine("configuration", "Can a node start with this configuration, and with the files that it names?",
		checkConfiguration),
	onMachine("obsolete_keys", "Does the configuration set keys that have no effect any more?", checkObsolete),
	onMachine("identity", "Is the key of the node there and whole?", checkIdentity),
	onMachine("permissions", "Can others read the keys in the home directory?", checkPermissions),
	onMachine("owners", "Does all of the home directory belong to its user?", checkOwners),
	onMachine("home_in_use", "Does another process write into the home directory?", checkInUse),
	onMachine("key_backup", "Which keys are lost with this disk?", checkBackup),

	onMachine("disk_space", "Is space left?", checkSpace),
	onMachine("disk_inodes", "Are inodes left?", checkInodes),
	onMachine("disk_sync", "How long does a durable write take?", checkSync),
	onMachine("file_system", "Is the file system one that keeps data and locks?", checkFileSystem),
	onMachine("open_files", "May the process open enough files?", checkOpenFiles),
	onMachine("memory", "Is there enough memory, and does Go know the limit of the cgroup?", checkMemory),
	onMachine("swap", "Can a node that keeps everything in RAM be swapped to disk?", checkSwap),
	onMachine("somaxconn", "Is the kernel's queue of new connections long enough?", checkBacklog),
	onMachine("udp_buffers", "Are the kernel's UDP buffers as large as QUIC wants them?", checkBuffers),

	onMachine("network", "Has this machine an address and a route?", checkNetwork),
	onMachine("dns", "Can the host names of the configuration be resolved?", checkDNS),
	onMachine("ports", "Are the ports of the configuration free?", checkPorts),
	onMachine("container", "Is the node behind the network of a container?", checkContainer),
	anywhere("cgnat", "Is the node behind the NAT of its provider?", checkCarrier),
	onNode("reach", "Can others dial the node?", checkReach),
	onNode("reach_ipv4", "Do peers get through over IPv4?", checkIPv4),
	onNode("reach_ipv6", "Do peers get through over IPv6?", checkIPv6),
	onNode("reach_tcp", "Do peers get through over TCP?", checkTCP),
	onNode("reach_quic", "Do peers get through over QUIC?", checkQUIC),
	onNode("confirmations", "Are there peers that can confirm addresses?", checkConfirmations),
	onNode("nat", "Can holes be punched through the router?", checkNAT),
	onNode("port_mapping", "Has the router mapped a port?", checkPortMapping),
	onNode("udp_blocked", "Does a firewall block UDP?", checkUDP),

	anywhere("seeds", "Do the seeds answer?", checkSeeds),
	anywhere("seed_manifest", "Is the signed list of seeds valid?", checkManifest),
	onNode("routing_table", "Does the node know enough peers?", checkTable),
	onNode("table_diversity", "Are these in many networks?", checkDiversity),
	anywhere("clock", "Is the clock right?", checkClock),
	onNode("twin", "Does another process have this identity?", checkTwin),

	onMachine("certificate", "Is the certificate of the gateway valid, and for how long?", checkCertificate),
	onMachine("certificate_key", "Can others read its key?", checkCertificateKey),
	anywhere("store_sample", "Does a random sample of the store match its addresses?", checkSample),
	onNode("store_damage", "Has the store lost something?", checkDamage),
	onNode("pins", "Have pins the copies that they ask for?", checkPins),
	onNode("names", "Are the node's names published and signed in time?", checkNames),
	anywhere("bucket", "Can the bucket be used?", checkBucket),
	onNode("version", "Is the node of the same version as the command?", checkVersion),
	onNode("goroutines", "Has the node more goroutines than its connections explain?", checkGoroutines),
	onNode("readiness", "Is another gate of readiness shut?", checkReadiness),
}
