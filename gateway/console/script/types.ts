// The types of the local API that the console reads. TestTypes makes this file.

export interface Overview {
	at: string;
	id: string;
	profile: string;
	ready: Readiness;
	now?: OverviewNow;
	peers?: OverviewPeers;
	content?: OverviewContent;
	names?: OverviewNames;
	lookups?: OverviewLookups;
	reload?: OverviewReload;
	testnet?: OverviewTestnet;
}

export interface Why {
	lookup: Lookup;
	parts?: LookupHead[];
	others?: LookupHead[];
	film?: boolean;
}

export interface Event {
	topic: string;
	kind?: string;
	at: string;
	gate?: Gate;
	peer?: PeerEvent;
	pin?: PinEvent;
	transfer?: TransferEvent;
	name?: Record;
	durability?: DurabilityEvent;
	reload?: ReloadEvent;
	lost?: number;
}

export interface GCReport {
	dry: boolean;
	classes: GCClass[];
	used: GCCount;
	max: GCCount;
	low: GCCount;
	need: GCCount;
	free: number;
	nodes: number;
	damaged?: GCDamage[];
	blocked?: string;
	took_ms: number;
}

export interface Problem {
	type: string;
	title: string;
	status: number;
	detail: string;
	instance?: string;
	reason: string;
	label?: string;
	limit?: string;
	current?: number;
	cap?: number;
	retry_after_ms?: number;
	lookup_id?: string;
}

export interface Pin {
	root: string;
	recursive: boolean;
	label?: string;
	since?: string;
	target?: Target;
	size?: number;
	at_least?: boolean;
}

export interface Readiness {
	ready: boolean;
	reads: boolean;
	writes: boolean;
	network: boolean;
	gates: Gate[];
}

export interface OverviewNow {
	process: ProcessHealth;
	clock: ClockHealth;
	store: StoreStat;
	traffic: Traffic;
	limits: Limit[];
	limits_left: number;
	transfers: Transfer[];
	transfers_left: number;
}

export interface OverviewPeers {
	addrs: string[];
	reach: Reach;
	table: TableHealth;
	peers: PeerQuality[];
	peers_left: number;
	seeds: Seeds;
}

export interface OverviewContent {
	store: StoreStat;
	pins: PinCopies[];
	pins_left: boolean;
	arriving: Arriving[];
	arriving_left: number;
	durability?: Durability;
	damage?: DamageReport;
}

export interface OverviewNames {
	own: OwnName[];
	own_left: boolean;
	watched: WatchedName[];
	watched_left: number;
}

export interface OverviewLookups {
	lookups: LookupHead[];
	left: number;
}

export interface OverviewReload {
	file?: string;
	values: ConfigValue[];
	reloads: Reloaded[];
}

export interface OverviewTestnet {
	faults: Faults;
	space: SpaceNode[];
	space_left: number;
}

export interface Lookup {
	id: string;
	parent?: string;
	kind: string;
	key: string;
	start: string;
	took_ms: number;
	ready_ms?: number;
	budget_ms?: number;
	running?: boolean;
	outcome?: string;
	message?: string;
	callers: number;
	bytes: number;
	steps: LookupStep[];
	searches: LookupSearch[];
	providers: LookupProvider[];
	tree?: LookupTree;
	omitted?: LookupOmissions;
}

export interface LookupHead {
	id: string;
	parent?: string;
	kind: string;
	key: string;
	start: string;
	took_ms: number;
	ready_ms?: number;
	budget_ms?: number;
	running?: boolean;
	outcome?: string;
	message?: string;
}

export interface Gate {
	name: string;
	ready: boolean;
	have: number;
	need: number;
	since?: string;
	retry_after: number;
	fix?: string;
}

export interface PeerEvent {
	id: string;
	addr: string;
	direction: string;
}

export interface PinEvent {
	root: string;
	label?: string;
	recursive?: boolean;
}

export interface TransferEvent {
	root: string;
	tree?: boolean;
	lookup_id?: string;
	outcome?: string;
	bytes?: number;
	took_ms?: number;
}

export interface Record {
	name: string;
	short?: string;
	found?: string;
	seq: number;
	value: string;
	not_after?: string;
	ttl_ms: number;
}

export interface DurabilityEvent {
	objects: number;
	at_risk: number;
	lost: number;
	missing_bytes: number;
	members?: number;
	ids?: string[];
}

export interface ReloadEvent {
	token: string;
	keys: string[];
	count: number;
	gate?: string;
	error?: string;
}

export interface GCClass {
	class: string;
	objects: number;
	bytes: number;
}

export interface GCCount {
	objects: number;
	bytes: number;
}

export interface GCDamage {
	pin: Pin;
	node: string;
	path: string;
	fix: string;
}

export interface Target {
	rf?: number;
	ec?: string;
}

export interface ProcessHealth {
	uptime_ms: number;
	goroutines: number;
	conns: number;
	streams: number;
	memory_bytes: number;
	memory_limit: number;
	open_files: number;
}

export interface ClockHealth {
	known: boolean;
	offset_ms: number;
	voices: number;
	need: number;
}

export interface StoreStat {
	backend: string;
	objects: number;
	bytes: number;
	small_bytes: number;
	large_bytes: number;
	outboard_bytes: number;
	partial_objects: number;
	partial_bytes: number;
	uploads: number;
	upload_bytes: number;
	corrupt: number;
	leases: number;
	ingests: number;
	space: StoreSpace;
	segments: Segments;
	index_bytes: number;
	hot: HotTier;
	scrub: ScrubState;
	gc: GCState;
	write_error?: string;
}

export interface Traffic {
	in: number;
	out: number;
}

export interface Limit {
	name: string;
	kind: string;
	capacity: number;
	current: number;
	peak: number;
	rejected: number;
	policy: string;
	path: string;
	each?: string;
	members?: number;
}

export interface Transfer {
	id: string;
	parent?: string;
	kind: string;
	key: string;
	start: string;
	took_ms: number;
	ready_ms?: number;
	budget_ms?: number;
	running?: boolean;
	outcome?: string;
	message?: string;
	bytes: number;
	peers: number;
	here?: number;
	size?: number;
}

export interface Reach {
	from: string;
	addrs: ReachAddr[];
	peers: number;
	confirmers: number;
	nat: ReachNAT;
	relays: boolean;
	advice: string[];
}

export interface TableHealth {
	peers: number;
	public: number;
	networks: number;
	largest: number;
	have: number;
	need: number;
	known: boolean;
}

export interface PeerQuality {
	id: string;
	addr: string;
	transport: string;
	direction: string;
	bucket: number | null;
	agent?: string;
	age_ms: number;
	rtt_ms?: number;
	streams: number;
	relayed: boolean;
	breaker: string;
	rate: number;
	busy: boolean;
}

export interface Seeds {
	seeds: Seed[];
	manifest?: SeedManifest;
	remembered: number;
}

export interface PinCopies {
	root: string;
	recursive: boolean;
	label?: string;
	since?: string;
	target?: Target;
	size?: number;
	at_least?: boolean;
	wanted?: number;
	observed?: number;
	state?: string;
	objects?: number;
	met?: number;
}

export interface Arriving {
	root: string;
	size: number;
	stored: number;
	running: boolean;
	cells: number[];
}

export interface Durability {
	objects: number;
	checking: number;
	at_risk: number;
	unreachable: number;
	lost: number;
	unplanned: number;
	copies_wanted: number;
	copies_observed: number;
	missing_bytes: number;
	eta_s: number;
	ready: boolean;
	last_only: boolean;
	beyond?: Beyond;
	members: Member[];
	evacuation?: Evacuation;
}

export interface DamageReport {
	open: number;
	unknown: number;
	damage: Damage[];
	objects: number;
}

export interface OwnName {
	name: string;
	short?: string;
	value: string;
	seq: number;
	not_after: string;
	ttl_ms: number;
	peers: number;
	sent?: string;
	due?: string;
	problem?: string;
	error?: Report;
	missing?: boolean;
}

export interface WatchedName {
	name: string;
	followers: number;
	value?: string;
	seq?: number;
	not_after?: string;
}

export interface ConfigValue {
	key: string;
	value: string;
	source: string;
	hot: boolean;
}

export interface Reloaded {
	token: string;
	at: string;
	dry_run?: boolean;
	result: string;
	changed: ConfigChange[];
	waiting: ConfigChange[];
	tasks: ReloadTask[];
	guard_until?: string;
	gate?: Gate;
}

export interface Faults {
	links?: LinkFault[];
	corrupt?: boolean;
	full_disk?: boolean;
	clock_skew_ms?: number;
	rate?: number;
}

export interface SpaceNode {
	id: string;
	at: number;
	self?: boolean;
	connected: boolean;
	table: boolean;
	bucket: number;
	fails: number;
}

export interface LookupStep {
	at_ms: number;
	took_ms?: number;
	source: string;
	verdict: string;
	count?: number;
	lookup?: string;
	note?: string;
}

export interface LookupSearch {
	key: string;
	at_ms: number;
	took_ms: number;
	joined?: boolean;
	running?: boolean;
	found: number;
	outcome?: string;
	message?: string;
	trace?: Trace;
	omitted?: number;
}

export interface LookupProvider {
	id: string;
	source: string;
	found_ms: number;
	asked: number;
	bytes: number;
	extra?: number;
	rate?: number;
	rtt_ms?: number;
	hedges: LookupHedges;
	gave_up?: LookupGaveUp;
	spans: LookupSpan[];
	omitted?: number;
}

export interface LookupTree {
	objects: number;
	bytes: number;
	fetched: number;
	fetched_bytes: number;
	skipped: number;
	failures: LookupFailure[];
}

export interface LookupOmissions {
	steps?: number;
	searches?: number;
	providers?: number;
	spans?: number;
	failures?: number;
}

export interface StoreSpace {
	used: GCCount;
	max: GCCount;
	low: GCCount;
	free: number;
	reserve: number;
	pinned: GCCount;
	evictable: GCCount;
	full: boolean;
	full_reason: string;
}

export interface Segments {
	files: number;
	bytes: number;
	live_bytes: number;
	spares: number;
	spare_bytes: number;
	compactions: number;
	compacted_bytes: number;
	reclaimed_bytes: number;
}

export interface HotTier {
	objects: number;
	bytes: number;
	hits: number;
	misses: number;
}

export interface ScrubState {
	running: boolean;
	started?: string;
	objects: number;
	bytes: number;
	bad: number;
	progress: number;
	last_end?: string;
	last_bad: number;
}

export interface GCState {
	runs: number;
	last_end?: string;
	last_took_ms: number;
	last_removed: GCCount;
}

export interface ReachAddr {
	addr: string;
	scope: string;
	via: string;
	state: string;
	announced: boolean;
	by?: string[];
}

export interface ReachNAT {
	udp: string;
	tcp: string;
}

export interface Seed {
	id: string;
	addrs: string[];
	source: string;
	connected: boolean;
	last_success?: string;
	last_error?: string;
	tries: number;
	not_after?: string;
	gave: string[];
	gave_at?: string;
}

export interface SeedManifest {
	seq: number;
	signer?: string;
	not_after?: string;
	error?: string;
}

export interface Beyond {
	objects: number;
	first: string;
	by: Asking;
}

export interface Member {
	id: string;
	self?: boolean;
	state: string;
	capacity: number;
	free: number;
	region?: string;
	domain?: string;
	network?: string;
}

export interface Evacuation {
	since: string;
	ready: boolean;
	objects: number;
	left: number;
	left_bytes: number;
	stuck: number;
	alone: number;
	why?: string;
	done: boolean;
}

export interface Damage {
	kind: string;
	state: string;
	file: string;
	offset: number;
	length: number;
	left: number;
	roots?: string[];
	reason: string;
	found?: string;
	ended?: string;
}

export interface Report {
	reason: string;
	message: string;
	detail?: string;
	limit?: string;
	current?: number;
	cap?: number;
	retry_after_ms?: number;
	lookup_id?: string;
}

export interface ConfigChange {
	key: string;
	old: string;
	new: string;
	hot: boolean;
}

export interface ReloadTask {
	name: string;
	state: string;
	since?: string;
	took_ms?: number;
	error?: Report;
}

export interface LinkFault {
	peer: string;
	addrs?: string[];
	cut?: boolean;
	delay_ms?: number;
	jitter_ms?: number;
	loss?: number;
}

export interface Trace {
	end: string;
	hops: number;
	probes: number;
	hedges: number;
	took_ms: number;
	steps: Step[];
}

export interface LookupHedges {
	won: number;
	lost: number;
	failed: number;
}

export interface LookupGaveUp {
	at_ms: number;
	outcome: string;
	message: string;
}

export interface LookupSpan {
	at_ms: number;
	sent_ms?: number;
	first_ms?: number;
	took_ms: number;
	start?: number;
	end?: number;
	objects?: number;
	bytes: number;
	extra?: number;
	hedge?: string;
	outcome: string;
	message?: string;
}

export interface LookupFailure {
	root: string;
	lookup?: string;
	outcome: string;
	message: string;
}

export interface Asking {
	id: string;
	self?: boolean;
	target: Target;
	beyond?: boolean;
	why?: string;
}

export interface Step {
	peer: string;
	hop: number;
	hedge: boolean;
	start_ms: number;
	took_ms: number;
	outcome: string;
	closer: number;
	providers: number;
	shared: number;
}
