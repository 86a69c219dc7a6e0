/*
 * Removal: member 0 has a target of WANT copies and removes it. Members 0, 1 and 2 hold a copy, and member 3 holds
 * none. The number of the target is odd while it asks for copies: 1, then 2 as it is removed, then 3 if it is
 * set AGAIN. Processes and their Go code:
 *
 *   Origin  Object.Ask at member 0
 *   Other   with OTHER, member 2 gets a target of its own, at any time: Object.Ask
 *   Away    a member of AWAY is not reached for a while. It does not know that, and drops what it may.
 *   Member  what Moment.Plan does with targets. It tells others, and takes over what these answer: Moment.Tell and
 *           Moment.Told, learner.Told and learner.learn. It sends copies that are missing, and tells the receiver
 *           before and after: sender.send. It drops a copy that nothing asks for: targets.unwanted.
 *   Leaver  with LEAVER, member 2 drops a copy that is too many, as Holder in trim.pml does: planning.leaveOn
 *   Liar    with LIAR 1, member 2 says that the target of member 0 was removed. With LIAR 2 it tells member 0 that it
 *           asks for copies again, and with LIAR 3 member 1: learner.learn
 *
 * One atomic block is one call of a method. A call of another member's is a request and its answer. A member that
 * drops its copy forgets the targets. Only member 0 keeps that it removed its own: learner.removed. TrimWait passes at
 * any time, but a member that can be reached is told within it.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property
 * beside it has to fail.
 */
#ifndef WANT
#define WANT 2
#endif
#ifndef SENDS
#define SENDS 2 /* most of them */
#endif
#ifndef AWAY
#define AWAY 0 /* member i is bit i */
#endif
#ifndef LIAR
#define LIAR 0
#endif
#define MEMBERS 4
#define bit(set, k) (((set) >> (k)) & 1)
#define odd(n) ((n) & 1)

bool here[MEMBERS];  /* the copy exists */
byte knows[MEMBERS]; /* Object.asked: the number of the target of member 0, as each member knows it; 0: it does not */
bool other[MEMBERS]; /* the same: the target of member 2 */
bool away[MEMBERS];
bool leaving;        /* Object.leave.began of member 2 is set */
bool second;         /* Object.leave.again: the second round has begun */
bool late;           /* a holder learned since then that its target was removed */
byte sends;          /* that were begun */
bool settled;        /* nothing is left to do */

bool removed;        /* member 0 removed its target */
bool mine = true;    /* member 0 asks for copies, as it knows itself */

bool older, foreign, denied, unsaid, unpromised, back; /* what must never be */

/* Object.Wanted is not 0 */
#define wants(j) (odd(knows[j]) || other[j])
#define copies (here[0] && !away[0]) + (here[1] && !away[1]) + (here[2] && !away[2] && !leaving) + (here[3] && !away[3])

/* learner.learn, and Moment.Told: d takes over from s that the number of the target is n. */
#define newer(d, n) /* guard: number, never_older */ ((n) > knows[d])
#define may(d, s, n) (/* guard: own, its_own */ (d != 0) && /* guard: lowers, keeps_wanted */ (odd(n) || (s) == 0))
#define takes(d, s) (here[d] && knows[s] && newer(d, knows[s]) && knows[s] != knows[d] && may(d, s, knows[s]))
/* Moment.Told: the origin hears something else than it asks for, and gives that a number above. */
#define differs(s) (knows[s] >= knows[0] && odd(knows[s]) != odd(knows[0]))
#define agrees(d, s) /* guard: asserts, gone */ (d != 0 || !differs(s))
#define takesOther(d, s) (here[d] && other[s] && !other[d])
#define changes(i, j) (!agrees(i, j) || !agrees(j, i) || takes(i, j) || takes(j, i) || takesOther(i, j) || takesOther(j, i))

inline learn(d, s) {
	if
	:: !takes(d, s) && !agrees(d, s) -> knows[0] = knows[s] + 1
	:: takes(d, s) ->
		older = older || knows[s] < knows[d];
		late = late || (second && !odd(knows[s]));
		knows[d] = knows[s];
		foreign = foreign || (d == 0 && odd(knows[0]) != mine)
	:: else -> skip
	fi;
	if
	:: takesOther(d, s) -> other[d] = true
	:: else -> skip
	fi
}

/* A member without a copy is not told, as it has no record of the object; but an origin that should have one is. */
#define untold(i, j) (!here[j] && /* guard: absent_origin, gone */ (j != 0 || !odd(knows[i])))
#define tells(i, j) (here[i] && !away[i] && !away[j] && !untold(i, j) && changes(i, j))

inline tell(i, j) {
	atomic { learn(j, i); learn(i, j) }
}

#define sendsTo(i, j) (here[i] && wants(i) && !here[j] && !away[i] && !away[j] && copies < WANT && sends < SENDS)

inline send(i, j) {
	sends++;
	tell(i, j);
	if
	:: (away[i] || away[j]) -> skip
	:: else ->
		atomic {
			if
			:: /* guard: asked_before, removed_first */ (wants(i)) ->
				unsaid = unsaid || !wants(i);
				here[j] = true
			:: else -> skip
			fi
		};
		if
		:: (!away[i] && !away[j]) -> tell(i, j)
		:: else -> skip
		fi
	fi
}

#define told(i) (away[i] || away[0] || knows[i] == 0 || !odd(knows[0]) || knows[i] >= knows[0])

proctype Member(byte i) {
	do
	:: (i != 0 && tells(i, 0)) -> tell(i, 0)
	:: (i != 1 && tells(i, 1)) -> tell(i, 1)
	:: (i != 2 && tells(i, 2)) -> tell(i, 2)
	:: (i != 3 && tells(i, 3)) -> tell(i, 3)
	:: (i != 0 && sendsTo(i, 0)) -> send(i, 0)
	:: (i != 1 && sendsTo(i, 1)) -> send(i, 1)
	:: (i != 2 && sendsTo(i, 2)) -> send(i, 2)
	:: (i != 3 && sendsTo(i, 3)) -> send(i, 3)
	:: (here[i] && !wants(i) && told(i)) -> /* TrimWait passes */
		atomic {
			if
			:: /* guard: still_unwanted, keeps_wanted */ (!wants(i)) ->
				denied = denied || wants(i) || (knows[i] && !removed);
				here[i] = false;
				knows[i] = (i == 0 -> knows[0] : 0);
				other[i] = false
			:: else -> skip
			fi
		}
	:: settled -> break
	od
}

proctype Origin() {
	atomic { knows[0]++; removed = true; mine = false; late = second };
#ifdef AGAIN
	atomic { here[0] = true; knows[0]++; mine = true }
#endif
}

proctype Other() {
	atomic {
		if
		:: here[2] -> other[2] = true
		:: else -> skip
		fi
	}
}

proctype Away(byte i) {
	away[i] = true;
	away[i] = false
}

proctype Liar() {
	byte n;
	atomic {
		n = knows[2];
#if LIAR == 1
		knows[2] = 4; learn(1, 2);
#elif LIAR == 2
		knows[2] = 5; learn(0, 2);
#else
		knows[2] = 5; learn(1, 2);
#endif
		knows[2] = n; n = 0
	}
}

/* Object.Answer of j to a challenge, and Object.Answered */
inline challenge(j) {
	atomic {
		if
		:: (here[j] && !away[j]) ->
			if
			:: /* guard: any_more, promised */ (wants(j)) -> n++
			:: else -> skip
			fi
		:: else -> skip
		fi
	}
}

proctype Leaver() {
	byte n;
	leaving = (wants(2) && !other[2]);
	if
	:: leaving ->
		challenge(0); challenge(1); challenge(3);
		if
		:: (n >= WANT) ->
			atomic { n = 0; second = true; late = false }
			challenge(0); challenge(1); challenge(3);
			atomic {
				if
				:: (n >= WANT && wants(2) && !other[2]) ->
					unpromised = unpromised || !late &&
						(here[0] && wants(0)) + (here[1] && wants(1)) + (here[3] && wants(3)) < WANT;
					here[2] = false; knows[2] = 0
				:: else -> skip
				fi
			}
		:: else -> skip
		fi
	:: else -> skip
	fi;
	atomic { n = 0; leaving = false; second = false; late = false }
}

init {
	atomic {
		here[0] = true; here[1] = true; here[2] = true;
		knows[0] = 1; knows[1] = 1; knows[2] = 1;
		run Member(0); run Member(1); run Member(2); run Member(3);
#if LIAR != 1
		run Origin();
#endif
#ifdef OTHER
		run Other();
#endif
#ifdef LEAVER
		run Leaver();
#endif
#if LIAR
		run Liar();
#endif
		if
		:: bit(AWAY, 0) -> run Away(0)
		:: else -> skip
		fi;
		if
		:: bit(AWAY, 1) -> run Away(1)
		:: else -> skip
		fi
	}
	timeout -> atomic {
		settled = true;
		back = !mine && !other[2] && (here[0] || here[1] || here[2] || here[3])
	}
}

/* what is known of a target is not replaced by what is older */
ltl never_older { [] !older }
/* nobody but the origin changes its target */
ltl its_own { [] !foreign }
/* nothing is dropped that a target asks for, and no other member than the origin says that it asks no more */
ltl keeps_wanted { [] !denied }
/* what was removed, as the receiver says, is not sent */
ltl removed_first { [] !unsaid }
/* a holder that counts on others is left with as many that will stay */
ltl promised { [] !unpromised }
/* in the end no copy is left of what was removed */
ltl gone { [] !back }
/* all of them come to an end */
ltl ends { <> settled }
