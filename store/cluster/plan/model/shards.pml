/*
 * Shards: an object is coded, and WANT pieces of it are wanted: WANT different shards, where a whole copy stands for
 * one that is missing. Each of MEMBERS members holds a piece, or nothing. Those in TRY try once to drop theirs, and
 * those in PLAN send what is missing. Processes and their Go code:
 *
 *   Holder   planning.trim, trimDouble and leaveOn, from Object.Leased on, which comes at any time, up to
 *            Drop. See trim.pml for how a holder gets its lease.
 *   Planner  Moment.Plan and planning.send: it challenges all others and sends what it misses, PLANS times. A send
 *            may end after the next plan: the receiver stores the shard, and Object.Sent follows.
 *   Loss     a member loses all that it holds, at any time, LOSSES times
 *
 * One atomic block is one call of a method. A call of another member's is a request and its answer: Object.Answer
 * and Object.Answered. A member that gets a second shard keeps both, and Object.Own is the first one, which it proves.
 * The last plan of a planner comes after all holders and losses. LOSSES are as many as the coding allows. Time is not
 * in the model, as in trim.pml.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property
 * beside it has to fail.
 */
#ifndef WANT
#define WANT 3
#endif
#ifndef DATA
#define DATA 2 /* so many different shards make the object */
#endif
#ifndef MEMBERS
#define MEMBERS 5
#endif
#ifndef PIECES
#define PIECES 11223 /* what each member holds: 0 nothing, a shard, 5 the shards 1 and 3, or 9 the whole object */
#endif
#ifndef TRY
#define TRY 0 /* member i is bit i; the last digit of PIECES is member 0 */
#endif
#ifndef PLAN
#define PLAN 0
#endif
#ifndef PLANS
#define PLANS 2
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#define NONE 255
#define WHOLE 16 /* in a set of pieces: shard k is bit k, and there are at most 4 */

#define bit(set, k) (((set) >> (k)) & 1)
#define shards(set) (bit(set, 0) + bit(set, 1) + bit(set, 2) + bit(set, 3))
#define least(a, b) ((a) < (b) -> (a) : (b))
/* copies.covered */
#define covered(set, more) least(WANT, shards(set) + (more))
#define stored (has[0] | has[1] | has[2] | has[3] | has[4])
#define wholes (bit(has[0], 4) + bit(has[1], 4) + bit(has[2], 4) + bit(has[3], 4) + bit(has[4], 4))

/* What a member proves that stores a set: the first shard, or the whole object. */
#define proof(set) ((set) & 1 -> 1 : ((set) & 2 -> 2 : ((set) & 4 -> 4 : ((set) & 8 -> 8 : (set)))))
#define proofs (proof(has[0]) | proof(has[1]) | proof(has[2]) | proof(has[3]) | proof(has[4]))
#define proves(m) (has[m] == WHOLE)
#define whole (proves(0) + proves(1) + proves(2) + proves(3) + proves(4))

byte has[5];        /* the set of pieces that each member stores */
bool leaving[5];    /* Object.leave.began is set */
bool second[5];     /* Object.leave.again: the second round has begun */
bool late[5];       /* a piece was lost since then */
byte lost, noWhole; /* the shards that were proved and lost, and the number of whole copies */
byte before = 1;    /* processes that the last plans wait for */
byte running = 1;   /* processes that are not through */

bool alone, unnoticed, unreadable, twice, missing; /* what must never be */

/* The places that a piece takes: n counts them, and set has the shards. */
inline count() {
	if
	:: (piece == WHOLE) -> n++
	:: (piece != 0 && piece != WHOLE) ->
		if
		:: /* guard: once, enough_left */ (!(set & piece)) -> set = set | piece; n++
		:: else -> skip
		fi
	:: else -> skip
	fi;
	piece = 0
}

/* Object.Answer of j to a challenge of i, and Object.Answered: n counts the places that were proved in this round. */
inline challenge(i, j) {
	atomic {
		if
		:: (i == j) -> skip
		:: (i != j && has[j]) ->
			if
			:: /* guard: says_leaving, enough_left */ (!leaving[j]) -> piece = proof(has[j]); count()
			:: else -> skip
			fi
		:: (i != j && !has[j]) ->
			if
			:: /* guard: proved_since, noticed */ (false) -> n++ /* by a proof from before the round */
			:: else -> skip
			fi
		fi;
		j++
	}
}

inline round(i) {
	do
	:: (j < MEMBERS) -> challenge(i, j)
	:: (j == MEMBERS) -> break
	od
}

/* planning.leaveOn, and trimDouble while a shard is missing: others prove the shard of i, and enough to read. */
#define others_do (n >= WANT || /* guard: same_shard, enough_left */ (set & proof(has[i])) && \
	/* guard: can_be_read, readable */ (n >= DATA))

proctype Holder(byte i) {
	byte n, j, set, piece, a, b;

	atomic { /* Object.Leased */
		if
		:: (has[i]) -> leaving[i] = true
		:: else -> skip
		fi
	}
	if
	:: (leaving[i]) ->
		round(i);
		if
		:: others_do -> /* TrimWait passes */
			atomic { n = 0; j = 0; set = 0; second[i] = true; late[i] = false }
			round(i);
			atomic { /* Plan of the tick at which Drop is returned */
				if
				:: /* guard: second_round, noticed */ (others_do) ->
					a = covered(proofs | lost, whole + noWhole);
					b = covered(proofs, whole);
					has[i] = 0;
					alone = alone || (covered(proofs | lost, whole + noWhole) < a);
					unnoticed = unnoticed || (covered(proofs, whole) < b && !late[i]);
					unreadable = unreadable || (shards(stored) < DATA && wholes == 0)
				:: else -> skip
				fi
			}
		:: else -> skip
		fi
	:: else -> skip
	fi;
	atomic {
		leaving[i] = false; second[i] = false; late[i] = false;
		n = 0; j = 0; set = 0; a = 0; b = 0;
		before--; running--
	}
}

#define sends(m) (to[0] == (m) || to[1] == (m) || to[2] == (m) || to[3] == (m))
#define onWay ((to[0] != NONE) + (to[1] != NONE) + (to[2] != NONE) + (to[3] != NONE))
/* View.Place may choose m: it said that it holds nothing. */
#define takes(m) ((m) < MEMBERS && (m) != i && !bit(held, m) && !sends(m))

/* The end of the send of shard k. It is made from others, if enough are there. */
inline deliver(k) {
	atomic {
		if
		:: (bit(has[i], k) || wholes > 0 || shards(stored) >= DATA) -> has[to[k]] = has[to[k]] | (1 << k)
		:: else -> skip
		fi;
		done = done | (1 << k)
	}
}

/* Object.Sent */
inline sent(k) {
	atomic { to[k] = NONE; done = done & ~(1 << k) }
}

proctype Planner(byte i) {
	byte n, j, set, piece, held, plans, k, w, done;
	short miss;
	byte to[4]; /* who is sent shard k */

	atomic { to[0] = NONE; to[1] = NONE; to[2] = NONE; to[3] = NONE }
	do
	:: (plans < PLANS && (plans < PLANS - 1 || before == 0 && !done)) ->
		do
		:: (j < MEMBERS) ->
			atomic {
				if
				:: (j == i || sends(j)) -> j++
				:: else ->
					w = n;
					challenge(i, j);
					held = (has[j - 1] -> held | (1 << (j - 1)) : held);
					w = 0
				fi
			}
		:: (j == MEMBERS) -> break
		od;
		atomic { /* Moment.Plan */
			if
			:: (has[i] && !leaving[i]) -> piece = proof(has[i]); count()
			:: else -> skip
			fi;
			w = n - shards(set);
			miss = WANT - n - onWay;
			do
			:: (k < WANT && miss > 0) -> /* copies.missing */
				if
				:: bit(set, k) -> skip
				:: else ->
					if
					:: /* guard: on_its_way, one_of_each */ (to[k] == NONE) ->
						if
						:: /* guard: stands_for_one, repaired */ (w > 0) -> w--
						:: else ->
							twice = twice || to[k] != NONE;
							if
							:: takes(0) -> to[k] = 0; miss--
							:: takes(1) -> to[k] = 1; miss--
							:: takes(2) -> to[k] = 2; miss--
							:: takes(3) -> to[k] = 3; miss--
							:: takes(4) -> to[k] = 4; miss--
							:: else -> miss = 0
							fi
						fi
					:: else -> skip
					fi
				fi;
				k++
			:: else -> break
			od;
			n = 0; j = 0; set = 0; held = 0; k = 0; w = 0; miss = 0; plans++
		}
	:: (to[0] != NONE && !bit(done, 0)) -> deliver(0)
	:: (to[1] != NONE && !bit(done, 1)) -> deliver(1)
	:: (to[2] != NONE && !bit(done, 2)) -> deliver(2)
	:: (to[3] != NONE && !bit(done, 3)) -> deliver(3)
	:: bit(done, 0) -> sent(0)
	:: bit(done, 1) -> sent(1)
	:: bit(done, 2) -> sent(2)
	:: bit(done, 3) -> sent(3)
	:: (plans == PLANS && onWay == 0) -> break
	od;
	atomic {
		plans = 0; running--;
		missing = missing || (running == 0 && covered(stored, wholes) < WANT)
	}
}

proctype Loss() {
	byte k, j;
	atomic {
		do
		:: (k < MEMBERS - 1) -> k++
		:: break
		od;
		lost = lost | (proof(has[k]) & 15);
		noWhole = noWhole + proves(k);
		if
		:: has[k] ->
			do
			:: (j < MEMBERS) -> late[j] = second[j]; j++
			:: (j == MEMBERS) -> break
			od
		:: else -> skip
		fi;
		has[k] = 0;
		unreadable = unreadable || (shards(stored) < DATA && wholes == 0);
		k = 0; j = 0; before--; running--
	}
}

init {
	byte i;
	int rest = PIECES;
	atomic {
		do
		:: (i < MEMBERS) ->
			if
			:: (rest % 10 == 0) -> skip
			:: (rest % 10 == 5) -> has[i] = 1 | 4
			:: (rest % 10 == 9) -> has[i] = WHOLE
			:: else -> has[i] = 1 << (rest % 10 - 1)
			fi;
			rest = rest / 10;
			if
			:: bit(TRY, i) -> before++; running++; run Holder(i)
			:: else -> skip
			fi;
			if
			:: bit(PLAN, i) -> running++; run Planner(i)
			:: else -> skip
			fi;
			i++
		:: (i == MEMBERS) -> break
		od;
		i = 0;
		do
		:: (i < LOSSES) -> before++; running++; run Loss(); i++
		:: (i == LOSSES) -> break
		od;
		i = 0; rest = 0; before--; running--
	}
}

/* no drop takes the only piece of a place that is taken, or was until a loss */
ltl enough_left { [] !alone }
/* a piece that was lost before the second round is not counted on */
ltl noticed { [] !unnoticed }
/* the object can be read after all that was dropped and lost */
ltl readable { [] !unreadable }
/* a planner sends a shard once at a time */
ltl one_of_each { [] !twice }
/* after the last plans all places are taken */
ltl repaired { [] !missing }
/* all of them come to an end */
ltl ends { <> (running == 0) }
