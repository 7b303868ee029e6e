// The stories of the page, in a real browser against the real binary: `cargo xtask web test`.

import './stories/following';
import './stories/restart';
import './stories/answering';
import './stories/cancelling';
import './stories/travelling';
import './stories/starting';
import './stories/crowd';
import './stories/everyone';
import './stories/attacks';
