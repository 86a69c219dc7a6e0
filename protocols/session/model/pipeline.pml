/*
 * Pipeline: two sessions that peers opened, over one ingress queue and one
 * worker, and the node's end:
 *
 *   reader, other → ingress(INGRESS) → worker → egress(EGRESS) → writer
 *
 * Processes and their Go code:
 *
 *   Reader   Service.accept, link.run and link.readRequests: Service.attach,
 *            link.request, link.admit, link.dispatch; REQUESTS requests
 *   Other    what a second session shares with the first: OTHERS requests in
 *            the ingress queue, a worker's time, Service.wg
 *   Worker   Service.work, task.run and task.finish
 *   Writer   link.write and link.send; a frame at a time
 *   Node     what a node does at its end: Service.Drain with link.goAway, then
 *            the end of Service.Run
 *
 * One atomic block is one hold of a mutex or one operation of a channel. What
 * a peer does is any choice: it asks, asks with a corr_id that is in flight,
 * ends its side, says nothing more. A stream takes a frame or fails (by
 * write_timeout at the latest). A handler returns at once or when its context
 * ends.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away
 * and turns round: each time a property below has to fail.
 */
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifndef INGRESS
#define INGRESS 2
#endif
#ifndef EGRESS
#define EGRESS 1
#endif

#define OPEN 0 /* stream: as it was opened */
#define CLOSED 1 /* by us: the peer reads what was written, then the end */
#define RESET 2 /* by us, with a code: the peer knows that something is lost */

#define GRACEFUL 0 /* why a session ends: errEnded and the like */
#define STOPPED 1 /* errStopped */
#define BROKEN 2 /* anything else */

#define ABSENT 0 /* egress.writer */
#define RESTING 1
#define WRITING 2

#define SMALL REQUESTS /* a frame that answers nothing that was dispatched; below it, outgoing.final of that corr_id */

/* One place more than there may be, so that a model without its guard shows
 * it instead of waiting. */
chan ingress = [INGRESS + 1] of { byte, byte }; /* Service.ingress: session, corr_id */
chan egress[2] = [EGRESS + 1] of { byte }; /* link.egress */

/* Service */
bool running = true;  /* Service.running is not nil */
bool draining;
byte inflight;        /* those inside Service.inflight */
byte attached;        /* Service.wg */
bool stopWorkers;

/* link */
typedef Link {
	bool listed;      /* peerEntry.links has it */
	byte permits;     /* permits.frames in use, of EGRESS */
	byte flight;      /* a bit for each corr_id */
	byte owed;
	byte producers;
	bool shut;
	byte writer;      /* egress.writer */
	bool wake;        /* egress.wake */
	byte writers;     /* link.writer */
	byte writing;     /* of them those that may still write */
	bool dead;        /* link.dead is over */
	bool ended;
	byte stream;
	byte reason;      /* why it is not open */
	bool joined;      /* link.run has waited for the writer */
	bool over         /* Service.accept returned */
};
Link link[2];

bool workerOver, nodeOver;

/* What the properties look at. */
typedef Ghost {
	bool due[REQUESTS];     /* dispatched, and the answer not yet written */
	bool handled[REQUESTS]; /* and the handler began */
	bool answered[REQUESTS] /* the answer is queued */
};
Ghost seen[2];
bool unheard;  /* a frame was queued after the writer's end, and nobody was told */
bool twice;    /* a request was answered that was answered */
bool torn;     /* a stream was ended twice */
bool lost;     /* a stream closed as if nothing was owed, and something was */
bool drained;  /* Drain returned 0 */
bool afterAll; /* and then a request was handled */

/* put is link.put: the permit is held. It starts the writer. */
inline put(l, frame) {
	atomic {
		unheard = unheard || (link[l].joined && !link[l].ended);
		if
		:: (frame < SMALL) ->
			twice = twice || seen[l].answered[frame];
			seen[l].answered[frame] = true
		:: else -> skip
		fi;
		egress[l]!frame;
		if
		:: /* guard: absent, bounded */ (link[l].writer == ABSENT) -> link[l].writers++; link[l].writing++
		:: (link[l].writer == RESTING) -> link[l].wake = true
		:: else -> skip
		fi;
		link[l].writer = WRITING
	}
}

/* forget is link.releaseFrames. It takes three locks, but who looks between them sees
 * what it saw before. An answer that was not written stays owed. */
inline forget(l, frame, sent) {
	atomic {
		link[l].permits--;
		if
		:: (frame < SMALL) -> inflight--;
			if
			:: /* guard: still_owed, nothing_lost */ (sent) -> link[l].owed--
			:: else -> skip
			fi
		:: else -> skip
		fi
	}
}

#define quiet(l) (link[l].flight == 0 && link[l].owed == 0)

inline shutStream(l, how, why) {
	d_step {
		torn = torn || (link[l].stream != OPEN);
		link[l].stream = how;
		link[l].reason = why
	}
}

/* fail is link.fail. Its context ends before it looks whether anything is owed. */
inline fail(l, why) {
	if
	:: atomic { /* guard: once, ends_once */ (!link[l].ended) -> link[l].ended = true; link[l].dead = true };
		if
		:: (why == GRACEFUL) -> shutStream(l, CLOSED, why)
		:: (why == STOPPED) ->
			if
			:: /* guard: quiet, nothing_lost */ (quiet(l)) -> shutStream(l, CLOSED, why)
			:: else -> shutStream(l, RESET, why)
			fi
		:: (why == BROKEN) -> shutStream(l, RESET, why)
		fi
	:: else -> skip
	fi
}

/* send is link.send: before it the stream took the frame, or it failed. */
inline send(l, frame) {
	if
	:: atomic { (link[l].stream == OPEN) ->
		if
		:: (frame < SMALL) -> seen[l].due[frame] = false; seen[l].handled[frame] = false
		:: else -> skip
		fi };
		forget(l, frame, true)
	:: true -> forget(l, frame, false); fail(l, BROKEN); goto out
	fi
}

/* One writer after the other: as many as there are in writers. */
proctype Writer(byte l) {
	byte frame;
	bool tired;

	do
	:: (link[l].writers > 0) ->
		/* link.write */
		do
		:: atomic { nempty(egress[l]) -> egress[l]?frame; tired = false }; send(l, frame)
		:: atomic { /* guard: all_written, nothing_lost */ (empty(egress[l])) ->
			if
			:: (tired || link[l].shut) -> link[l].writer = ABSENT; link[l].writing--; goto done
			:: else -> link[l].writer = RESTING
			fi };
			if
			:: atomic { link[l].wake -> link[l].wake = false }
			:: tired = true
			fi
		:: link[l].ended -> break
		od;
out:
		link[l].writing--;
done:
		atomic { link[l].writers--; frame = 0; tired = false }
	:: (link[l].over && link[l].writers == 0) -> break
	od
}

/* hold is permits.acquireForReader: a permit, or the session ended. */
inline hold(l) {
	if
	:: atomic { /* guard: permit, bounded */ (link[l].permits < EGRESS) -> link[l].permits++ }
	:: link[l].dead -> why = BROKEN; goto ended
	fi
}

/* dispatch is link.dispatch. */
inline dispatch() {
	if
	:: atomic { /* guard: not_draining, drain_holds */ (!draining) -> inflight++ };
		atomic { link[l].flight = link[l].flight | (1 << c); link[l].producers++; link[l].owed++ };
		if
		:: atomic { /* guard: ingress_room, bounded */ (len(ingress) < INGRESS) ->
			seen[l].due[c] = true;
			ingress!l, c };
			c = SMALL
		:: atomic { (len(ingress) >= INGRESS && ingress??[1, 0]) -> /* the other's is shed: task.finish */
			ingress??1, 0;
			inflight--;
			link[1].producers--;
			seen[l].due[c] = true;
			ingress!l, c };
			c = SMALL
		:: else -> /* undone */
			link[l].flight = link[l].flight & ~(1 << c);
			link[l].owed--;
			inflight--;
			link[l].producers--
		fi
	:: else -> skip
	fi;
	if
	:: (c < SMALL) -> put(l, SMALL) /* refused */
	:: else -> skip
	fi
}

proctype Reader() {
	byte l, next, c, frame, why; /* l is 0 */

	/* Service.attach, under Service.mu */
	atomic {
		if
		:: /* guard: attach_running, shuts_down */ (running) -> link[l].listed = true; attached++; run Writer(l)
		:: else -> goto out /* reset: the peer is told */
		fi
	}
	/* link.readRequests */
	do
	:: atomic { (next < REQUESTS) -> /* a request */
		c = next;
		next++ };
		hold(l);
		/* link.admit */
		if
		:: put(l, SMALL) /* a PING, or refused by rate, size or max_inflight */
		:: dispatch()
		:: atomic { (c > 0 && (link[l].flight & (1 << (c - 1)))) -> /* a corr_id in flight */
			c--;
			if
			:: /* guard: distinct, answered_once */ (!(link[l].flight & (1 << c))) -> skip
			:: else -> link[l].permits--; why = BROKEN; goto ended
			fi };
			dispatch()
		fi
	:: true -> why = GRACEFUL; break /* the peer's end, idle: errEnded, errIdle */
	:: true -> atomic { (link[l].stream != OPEN); why = BROKEN }; break /* silence */
	od;
ended:
	/* link.run */
	if
	:: (why == BROKEN) -> fail(l, BROKEN)
	:: else -> skip
	fi;
	link[l].shut = true;
	/* guard: join_producers, heard */ (link[l].producers == 0);
	/* link.stopWriter */
	if
	:: (link[l].writer == RESTING) -> link[l].wake = true
	:: else -> skip
	fi;
	atomic { /* guard: join_writer, nothing_lost */ (link[l].writers == 0); link[l].joined = true };
	fail(l, why);
	atomic {
		do
		:: nempty(egress[l]) ->
			egress[l]?frame;
			lost = lost || (link[l].stream == CLOSED && link[l].reason == GRACEFUL);
			forget(l, frame, false)
		:: empty(egress[l]) -> break
		od;
		c = 0;
		frame = 0;
		next = 0
	};
	atomic { /* Service.detach */
		do
		:: (c < REQUESTS) ->
			lost = lost || (link[l].stream == CLOSED && seen[l].due[c] &&
				(seen[l].handled[c] || link[l].reason == GRACEFUL));
			seen[l].due[c] = false;
			seen[l].handled[c] = false;
			seen[l].answered[c] = false;
			c++
		:: (c == REQUESTS) -> break
		od;
		link[l].listed = false;
		attached--;
		c = 0;
		why = GRACEFUL
	};
out:
	link[l].over = true
}

/* Other is a second session, of which only what it shares with the first is
 * there: it asks, says nothing more, and what it is answered goes nowhere. */
proctype Other() {
	byte c;

	do
	:: (c < OTHERS) ->
		atomic { /* link.dispatch */
			if
			:: (!draining && len(ingress) < INGRESS) ->
				link[1].producers++;
				inflight++;
				ingress!1, 0
			:: (!draining && ingress??[0, 0]) -> /* sheds the first's */
				link[1].producers++;
				inflight++;
				ingress??0, 0;
				ingress!1, 0;
				link[0].flight = link[0].flight & ~1;
				put(0, 0);
				link[0].producers--
			:: else -> skip
			fi;
			c++
		}
	:: true -> break
	od;
	atomic { link[1].dead; c = 0 };
	atomic { (link[1].producers == 0); link[1].listed = false; attached-- };
	link[1].over = true
}

proctype Worker() {
	byte l, c;

	/* Service.work */
	do
	:: ingress?l, c ->
		/* task.run */
		if
		:: atomic { /* guard: in_time, nothing_lost */ (!link[l].dead) ->
			seen[l].handled[c] = true;
			afterAll = afterAll || drained };
			if
			:: skip /* it returns at once */
			:: link[l].dead -> skip /* or when its context ends */
			fi
		:: link[l].dead -> skip /* expired */
		fi;
		link[l].flight = link[l].flight & ~(1 << c);
		atomic {
			if
			:: (l == 0) -> put(0, c)
			:: else -> inflight--
			fi;
			link[l].producers--;
			l = 0;
			c = 0
		}
	:: stopWorkers -> break
	od;
	workerOver = true
}

proctype Node() {
	if
	:: draining = true /* Service.Drain */
	:: goto stop /* without */
	fi;
	if
	:: link[0].listed -> /* link.goAway */
		if
		:: atomic { /* guard: enter, heard */ (!link[0].shut) -> link[0].producers++ };
			if
			:: atomic { /* guard: try_permit, bounded */ (link[0].permits < EGRESS) -> link[0].permits++ };
				put(0, SMALL)
			:: else -> skip
			fi;
			link[0].producers--
		:: else -> skip
		fi
	:: else -> skip
	fi;
	if
	:: (inflight == 0) -> drained = true
	:: true -> skip /* its context ended */
	fi;
stop:
	/* the end of Service.Run */
	running = false;
	if
	:: link[0].listed -> fail(0, STOPPED)
	:: else -> skip
	fi;
	link[1].dead = true;
	/* guard: join_sessions, shuts_down */ (attached == 0);
	stopWorkers = true;
	/* guard: join_worker, joined */ (workerOver);
	nodeOver = true
}

init {
	atomic {
		run Reader();
		if
		:: (OTHERS > 0) -> link[1].listed = true; attached++; run Other()
		:: else -> link[1].over = true
		fi;
		run Worker();
		run Node()
	}
}

#define gone(l) (!link[l].listed && link[l].permits == 0 && link[l].writers == 0 && len(egress[l]) == 0)

/* no queue above its capacity, no permit above their number, one writer */
ltl bounded { [] (len(ingress) <= INGRESS && len(egress[0]) <= EGRESS && link[0].permits <= EGRESS && link[0].writing <= 1) }
/* no frame queued after the writer's end without an error told */
ltl heard { [] !unheard }
/* what was admitted is written or told as cut off */
ltl nothing_lost { [] !lost }
/* no answer twice */
ltl answered_once { [] !twice }
/* a stream ends once */
ltl ends_once { [] !torn }
/* after a Drain that left nothing, nothing is begun */
ltl drain_holds { [] !afterAll }
/* Run returns after everything that it started, and with everything given back */
ltl joined { [] (nodeOver -> (workerOver && gone(0) && gone(1) && inflight == 0 && len(ingress) == 0)) }
/* and it does return, whatever the peers do */
ltl shuts_down { <> (nodeOver && workerOver && link[0].over && link[1].over) }
