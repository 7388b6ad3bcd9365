package runner

import "crew/runner/core"

// A run is configured, and its end described, in the words of package core.
type (
	Config = core.Config
	Pool   = core.Pool
	Order  = core.Order
	Limit  = core.Limit
	Retry  = core.Retry
	Halt   = core.Halt
	Feed   = core.Feed
	When   = core.When
	On     = core.On
	Tokens = core.Tokens
	Ending = core.Ending
	Reason = core.Reason
)

// The ways to halt, and the results that count.
const (
	Never, Soon, Now          = core.Never, core.Soon, core.Now
	OnFail, OnSuccess, OnDone = core.OnFail, core.OnSuccess, core.OnDone
)

// The reasons why a run ended.
const (
	Completed, Halted, Late, BadCommand = core.Completed, core.Halted, core.Late, core.BadCommand
	Unread, Told, Broken                = core.Unread, core.Told, core.Broken
)
