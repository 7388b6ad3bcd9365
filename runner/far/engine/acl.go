package engine

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"crew/runner/far/credentials"
	"crew/runner/far/travel"
)

// userToken returns a user's name as a part of subjects. No two users of a hub have the same token.
func userToken(name string) string {
	return strings.Map(func(r rune) rune {
		if outOfName(r) {
			return '='
		}
		return r
	}, cmp.Or(name, "="))
}

// inboxOf returns the prefix of the subjects of replies to a user.
func inboxOf(user string) string { return "_INBOX." + user }

// anyInbox matches the subjects of all replies, each of which only the receiver of its request knows. The
// server could restrict replies to those, but then a client could publish on any subject: it need only
// send itself a request with that subject for the reply.
const anyInbox = "_INBOX.*.>"

// permissions returns the least permissions of a role.
func permissions(publish, subscribe []string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}
}

// submitterRights returns the rights of a user's runs, and of crew engine except serve, invite and
// revoke. They do not reach the runs of other users.
func submitterRights(user string) *server.Permissions {
	return permissions([]string{
		taskSubject("*", allWorkers, user, "*"), orderSubject("*", allWorkers, user), heartbeatSubject("*", user), runSubject(user, "*"), dispatchSubject(user),
		askSubject, runInfoSubject(user, "*"), travel.Subject("*", "*"), anyInbox,
	}, []string{
		inboxOf(user) + ".>", "crew.r." + user + ".>", runSubject(user, "*"), travel.Subject(user, "*"),
		askSubject, presenceSubject("*", allWorkers), runInfoSubject(user, "*"),
	})
}

// workerRights returns the rights of crew worker: to announce itself, receive the attempts sent to it
// and publish their results, all on subjects with its user's name. It cannot submit tasks, give orders
// or read results.
func workerRights(user string) *server.Permissions {
	return permissions([]string{resultSubject("*", "*", user+".*"), presenceSubject("*", user+".*"), travel.Subject("*", "*"), anyInbox}, []string{
		inboxOf(user) + ".>", taskSubject("*", user+".*", "*", "*"), orderSubject("*", user+".*", "*"), travel.Subject(user, "*"), heartbeatSubject("*", "*"), askSubject,
	})
}

func rightsOf(u credentials.User) *server.Permissions {
	if u.Submitter {
		return submitterRights(userToken(u.Name))
	}
	return workerRights(userToken(u.Name))
}

// leastRights returns the rights of both roles as a part of a server's configuration, with passwords
// from its environment. A further user needs the same rights with its own name.
func leastRights() string {
	user := func(name, use string, r *server.Permissions) string {
		list := func(subjects []string) string { return `"` + strings.Join(subjects, "\"\n        \"") + `"` }
		return fmt.Sprintf(`    # %s
    { user: %s, password: $CREW_%s, permissions: {
      publish: [
        %s
      ]
      subscribe: [
        %s
      ]
    } }
`, use, name, strings.ToUpper(name), list(r.Publish.Allow), list(r.Subscribe.Allow))
	}
	return "authorization {\n  users = [\n" +
		user("submitter", "crew --engine, crew engine status and so on", submitterRights("submitter")) +
		user("worker", "crew worker", workerRights("worker")) + "  ]\n}\n"
}

const (
	signedFor   = 5 * time.Minute
	signContext = "crew-attempt-1\x00" // begins the signed text, so a signature is valid for nothing else
)

// sign signs an attempt that will be sent on subject. The signature holds until a.Expires, which is set
// to signedFor from now if it is zero. No field of a may change afterwards.
func sign(k *credentials.Key, a *Attempt, subject string) {
	if a.Expires.IsZero() {
		a.Expires = time.Now().Add(signedFor)
	}
	a.Signer = k.Signer
	a.Sig = k.Sign(signedText(encode(kindAttempt, a), subject))
}

// signLasting signs all attempts of a task, on any worker of the queue in subject.
func signLasting(k *credentials.Key, a *Attempt, subject string) {
	a.Lasting, a.Expires = true, time.Now().Add(keptFor)
	sign(k, a, subject)
}

// common returns the fields that all attempts of a task share.
func (a *Attempt) common() *Attempt {
	c := *a
	c.ID, c.Token, c.User, c.Keep, c.Slot, c.Units, c.Needs, c.Live = ID{Run: a.Run, Task: a.Task}, Token{}, "", false, 0, nil, nil, false
	return &c
}

// signedText returns the signed bytes: the subject and msg without the signature at its end.
func signedText(msg []byte, subject string) []byte {
	b := make([]byte, 0, len(signContext)+len(subject)+1+len(msg))
	b = append(b, signContext...)
	b = append(b, subject...)
	b = append(b, 0)
	return append(b, msg[:len(msg)-ed25519.SignatureSize]...)
}

// check returns why an attempt must not run: its signature is missing, wrong, expired or not by a
// trusted key. a was decoded from msg, which came on subject. A signed message can be sent twice: the
// caller must drop attempts that it has already accepted.
func check(t credentials.Keys, a *Attempt, subject string, msg []byte) error {
	left := time.Until(a.Expires)
	if a.Lasting {
		parts := strings.Split(subject, ".") // see taskSubject
		subject, msg = taskSubject(parts[2], signedForAll, a.User, a.Run), encode(kindAttempt, a.common())
	}
	switch {
	case a.Signer == [32]byte{}:
		return errors.New("its command is not signed: give the run --sign FILE")
	case !t[a.Signer]:
		return errors.New("its command is signed by a key that is not trusted: add " +
			credentials.Line(a.Signer) + " to a file of --trust")
	case a.Sig == [64]byte{}, !ed25519.Verify(a.Signer[:], signedText(msg, subject), msg[len(msg)-ed25519.SignatureSize:]):
		return errors.New("its signature is wrong: it was changed in transit")
	case left <= 0:
		return fmt.Errorf("its signature expired %v ago: compare the clocks of the two machines", -left.Round(time.Second))
	case left > tokensKept && !a.Lasting: // it could be repeated once the worker has forgotten it
		return fmt.Errorf("it was signed %v in the future: compare the clocks of the two machines", (left - signedFor).Round(time.Second))
	}
	return nil
}
