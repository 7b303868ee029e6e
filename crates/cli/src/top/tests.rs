//! Every screen at two sizes, from the data of real runs, and what keys and the mouse do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use posse::ports::System;
use posse::scripted::ScriptedModel;
use posse::{Decision, EventKind, NewRun, Posse, Rule, RunId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::ScreenPainter;
use super::load;
use super::runs::RunList;
use super::state::{Bottom, Request, State, Tab};
use super::update::{Effect, Input};
use crate::view::keys::{Key, Mouse, MouseAction};

/// When the first event happens, and how much later each further look at the clock is.
const START_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 250;

/// A clock that advances with every look, and ids that are the same in every run of the test.
#[derive(Default)]
struct TestSystem {
    looks: AtomicI64,
    drawn: AtomicU64,
}

impl System for TestSystem {
    fn now_ms(&self) -> i64 {
        START_MS + STEP_MS * self.looks.fetch_add(1, Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

const SCRIPT: &str = r#"
- when: {definition: coder, contains: Please}
  reply: {tool_calls: [{name: list, input: {path: "a\u001b[8m"}}]}
- when: {definition: coder, turn: 1}
  reply:
    text: I split this.
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: "find it\u001b[2J", prompt: "Find it.\u202e"}}
      - {name: task, input: {subagent_type: general, description: change it, prompt: Change it.}}
    usage: {input_tokens: 1200, output_tokens: 80}
- when: {definition: general, turn: 1}
  reply:
    text: "I write.\u001b]0;title\u0007"
    tool_calls: [{name: write, input: {path: made.txt, content: "one\ntwo \u001b[8mhidden\n"}}]
- when: {definition: explore}
  reply: {text: "It is in main.\n\nNothing else.", usage: {input_tokens: 700, output_tokens: 20}}
- reply: {text: Done.}
"#;

/// A posse with two runs: one has ended, and one asks for permission.
struct World {
    posse: Posse,
    ended: RunId,
    asking: RunId,
    home: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let project = home.path().join("project");
        std::fs::create_dir(&project).expect("a project");
        let script = ScriptedModel::from_yaml(SCRIPT, "script.yaml").expect("a script");
        let posse = Posse::builder()
            .system(Arc::new(TestSystem::default()))
            .model("scripted/test", script)
            .state_dir(home.path().join("state"))
            .open()
            .expect("open");
        let new = |request: &str| NewRun::new(request).model("scripted/test").dir(&project).parallel(1);
        let ended = posse.start(new("Find it and change it")).await.expect("started");
        posse.wait(ended.id()).await.expect("it ends");
        let rule = Rule { pattern: "list".parse().expect("a pattern"), decision: Decision::Ask };
        let asking = new("Please ask me").run_rules(vec![rule].into()).attended(true);
        let asking = posse.start(asking).await.expect("started");
        let mut events = posse.events(asking.id(), 0);
        while events.next().await.expect("an event").kind != EventKind::InputRequested {}
        Self { posse, ended: ended.id().clone(), asking: asking.id().clone(), home }
    }

    /// The state before anything is read.
    fn state(columns: u16, rows: u16) -> State {
        State { columns, rows, now_ms: START_MS + 60_000, ..State::default() }
    }

    /// Takes an input, and everything that follows from it.
    async fn take(&self, state: &mut State, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            if let Some(effect) = state.update(input).effect {
                next = load::perform(self.posse.clone(), effect).await;
            }
        }
    }

    async fn keys(&self, state: &mut State, keys: &[Key]) {
        for key in keys {
            self.take(state, Input::Key(*key)).await;
        }
    }

    /// A state with the list of runs.
    async fn loaded(&self, columns: u16, rows: u16) -> State {
        let mut state = Self::state(columns, rows);
        let runs = load::perform(self.posse.clone(), Effect::LoadRuns).await.expect("the runs");
        self.take(&mut state, runs).await;
        state
    }

    /// The texts of a screen, without what differs from machine to machine.
    fn screen(state: &State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(state.columns, state.rows)).expect("a terminal");
        let drawing = ScreenPainter { is_coloured: false };
        terminal.draw(|frame| drawing.draw(state, frame.buffer_mut())).expect("drawn");
        let lines = terminal.backend().to_string();
        let lines = lines.lines().map(|line| line.trim_matches('"').trim_end());
        lines.map(redact).collect::<Vec<_>>().join("\n")
    }
}

/// Replaces times of day, which depend on the zone, and how long something really took.
fn redact(line: &str) -> String {
    let is_time = |word: &str| [8, 12].contains(&word.len()) && word.matches(':').count() == 2;
    let words: Vec<&str> = line.split(' ').collect();
    let word = |(at, word): (usize, &&str)| match *word {
        word if is_time(word) => "hh:mm:ss.mmm"[..word.len()].to_owned(),
        word if words.get(at + 1).is_some_and(|unit| unit.trim_matches([',', ')']) == "ms") => {
            word.chars().map(|c| if c.is_ascii_digit() { 'N' } else { c }).collect()
        }
        word => word.to_owned(),
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

fn test(story: impl AsyncFnOnce(World)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { story(World::new().await).await });
}

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

#[test]
fn every_screen_at_two_sizes() {
    test(async |world| {
        for (columns, rows) in SIZES {
            let mut state = world.loaded(columns, rows).await;
            // The directory of the test has another name every time.
            state.runs = RunList::new(None, None, false, Some(world.home.path().into()));
            world.take(&mut state, Input::Key(Key::Char('r'))).await;
            world.keys(&mut state, &[Key::Down]).await;
            for (key, tab) in ('1'..='8').zip(Tab::ALL) {
                world.keys(&mut state, &[Key::Char(key)]).await;
                let name = format!("{}_at_{columns}x{rows}", tab.title().to_lowercase());
                insta::assert_snapshot!(name, World::screen(&state));
            }
            world.keys(&mut state, &[Key::Char('?')]).await;
            insta::assert_snapshot!(format!("keys_at_{columns}x{rows}"), World::screen(&state));
        }
    });
}

#[test]
fn nothing_of_a_model_or_a_file_reaches_a_cell_raw() {
    test(async |world| {
        let mut state = world.loaded(120, 40).await;
        for key in ['1', '2', '3', '4', '5', '6', '7', '8'].into_iter().cycle().take(16) {
            world.keys(&mut state, &[Key::Char(key), Key::Char('/'), Key::Char('e'), Key::Enter]).await;
            let mut buffer = ratatui::buffer::Buffer::empty(ratatui::layout::Rect::new(0, 0, 120, 40));
            ScreenPainter { is_coloured: true }.draw(&state, &mut buffer);
            for cell in buffer.content() {
                let is_raw = |c: char| {
                    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                };
                assert!(!cell.symbol().contains(is_raw), "{:?} on tab {key}", cell.symbol());
            }
            if key == '8' {
                world.keys(&mut state, &[Key::Char('1'), Key::Down]).await;
            }
        }
    });
}

#[test]
fn a_call_is_answered_only_after_a_confirmation_that_names_it() {
    test(async |world| {
        let mut state = world.loaded(80, 24).await;
        world.keys(&mut state, &[Key::Char('8'), Key::Char('a')]).await;
        assert_eq!(state.bottom, Bottom::Keys, "always is not offered for a rule of the run");
        world.keys(&mut state, &[Key::Char('o'), Key::Char('n')]).await;
        assert_eq!(state.inbox.questions.len(), 1, "any other key is a no");
        world.keys(&mut state, &[Key::Char('o')]).await;
        let screen = World::screen(&state);
        assert!(screen.ends_with(r"allow once: list:a\u{1b}[8m? y yes · any other key no"), "{screen}");
        world.keys(&mut state, &[Key::Char('y')]).await;
        assert_eq!(state.bottom, Bottom::Note(format!("answered {}", world.asking)));
        assert!(state.inbox.questions.is_empty());
        let mut events = world.posse.events(&world.asking, 0);
        while events.next().await.expect("an event").kind != EventKind::InputAnswered {}
    });
}

#[test]
fn an_open_run_is_followed_to_its_end() {
    test(async |world| {
        let mut state = world.loaded(80, 24).await;
        // The run that asks is the newest.
        world.keys(&mut state, &[Key::Enter, Key::Enter]).await;
        assert_eq!(state.tab, Tab::Conversation);
        let after = state.run.as_ref().expect("a run").view.last_seq();
        world.keys(&mut state, &[Key::Char('8'), Key::Char('d'), Key::Char('y'), Key::Char('4')]).await;
        let mut events = world.posse.events(&world.asking, after);
        loop {
            let event = events.next().await.expect("an event");
            let is_end = event.kind.ends_run();
            world.take(&mut state, Input::Event(Box::new(event))).await;
            if is_end {
                break;
            }
        }
        world.keys(&mut state, &[Key::End]).await;
        assert!(World::screen(&state).contains("run completed"), "{}", World::screen(&state));
        world.keys(&mut state, &[Key::Char('2')]).await;
        assert!(World::screen(&state).contains("✓ n0zmmz5q"), "{}", World::screen(&state));
    });
}

#[test]
fn the_list_is_searched_filtered_and_opened_by_keys_and_by_mouse() {
    test(async |world| {
        let mut state = world.loaded(80, 24).await;
        let runs =
            |state: &State| state.runs.shown().iter().map(|run| run.run.run.clone()).collect::<Vec<_>>();
        let search: Vec<Key> = "/CHANGE".chars().map(Key::Char).collect();
        world.keys(&mut state, &search).await;
        assert_eq!(runs(&state), std::slice::from_ref(&world.ended));
        world.keys(&mut state, &[Key::Enter, Key::Escape]).await;
        assert_eq!(runs(&state).len(), 2, "Esc removes the filters");
        world.keys(&mut state, &[Key::Char('s'), Key::Char('s')]).await;
        assert_eq!(runs(&state), std::slice::from_ref(&world.asking), "those that wait");
        assert!(World::screen(&state).contains("1 of 2 runs · status waiting"));
        world.keys(&mut state, &[Key::Escape]).await;
        let press = |column, row| Key::Mouse(Mouse { action: MouseAction::Press, column, row });
        world.keys(&mut state, &[press(5, 4)]).await;
        assert_eq!(state.runs.selected(), Some(world.ended.clone()), "the second row");
        world.keys(&mut state, &[press(5, 4)]).await;
        assert_eq!(state.tab, Tab::Tree, "a second click opens it");
        world.keys(&mut state, &[press(5, 4), press(20, 0)]).await;
        assert_eq!(state.tab, Tab::Timeline, "a click on a tab");
        assert_eq!(state.run.as_ref().map(|run| run.agent.relative().to_owned()), Some("2".to_owned()));
        world
            .keys(
                &mut state,
                &[
                    press(79, 23),
                    press(0, 200),
                    Key::Mouse(Mouse { action: MouseAction::WheelDown, column: 1, row: 5 }),
                ],
            )
            .await;
        assert_eq!(state.tab, Tab::Timeline, "nothing is there");
    });
}

#[test]
fn a_search_finds_the_next_match_and_says_if_there_is_none() {
    test(async |world| {
        let mut state = world.loaded(80, 10).await;
        world.keys(&mut state, &[Key::Down, Key::Char('4')]).await;
        let search: Vec<Key> = "/run completed".chars().map(Key::Char).chain([Key::Enter]).collect();
        world.keys(&mut state, &search).await;
        assert!(World::screen(&state).contains("run completed"), "{}", World::screen(&state));
        let search: Vec<Key> = "/nowhere".chars().map(Key::Char).chain([Key::Enter]).collect();
        world.keys(&mut state, &search).await;
        assert_eq!(state.bottom, Bottom::Note("\u{201c}nowhere\u{201d} was not found".to_owned()));
        world.keys(&mut state, &[Key::Char('2'), Key::Char('/')]).await;
        let search: Vec<Key> = "general".chars().map(Key::Char).chain([Key::Enter]).collect();
        world.keys(&mut state, &search).await;
        assert_eq!(state.run.as_ref().map(|run| run.agent.relative().to_owned()), Some("2".to_owned()));
    });
}

#[test]
fn a_cancellation_and_a_message_are_sent_to_what_is_selected() {
    test(async |world| {
        let mut state = world.loaded(80, 24).await;
        let message: Vec<Key> = "mhurry".chars().map(Key::Char).chain([Key::Enter]).collect();
        world.keys(&mut state, &message).await;
        assert_eq!(state.bottom, Bottom::Note(format!("sent to {}", world.asking)));
        world.keys(&mut state, &[Key::Char('c')]).await;
        assert_eq!(state.bottom, Bottom::Confirm(Request::Cancel(world.asking.root())));
        world.keys(&mut state, &[Key::Char('y')]).await;
        let ended = world.posse.wait(&world.asking).await.expect("it ends");
        assert_eq!(ended.status, posse::RunStatus::Cancelled);
    });
}

#[test]
fn tiny_terminals_and_empty_lists_are_drawn() {
    test(async |world| {
        for (columns, rows) in [(1, 1), (3, 2), (20, 5), (400, 4)] {
            let mut state = world.loaded(columns, rows).await;
            for key in '1'..='8' {
                world.keys(&mut state, &[Key::Char(key), Key::Down, Key::PageDown, Key::End]).await;
                World::screen(&state);
            }
        }
        let mut state = World::state(80, 24);
        assert!(World::screen(&state).contains("reading …"));
        state.update(Input::Runs(vec![], vec![]));
        assert!(World::screen(&state).contains("no runs yet"));
        assert_eq!(state.update(Input::Key(Key::Enter)).effect, None);
        assert_eq!(state.update(Input::Key(Key::Char('q'))).effect, Some(Effect::Quit));
    });
}

#[test]
fn what_has_not_changed_is_not_drawn_again() {
    test(async |world| {
        let mut state = world.loaded(80, 24).await;
        let again = load::perform(world.posse.clone(), Effect::LoadRuns).await.expect("the runs");
        assert!(!state.update(again).is_changed);
        world.keys(&mut state, &[Key::Down, Key::Char('5')]).await;
        assert!(!state.update(Input::Tick(state.now_ms + 1_000)).is_changed, "a diff has no clock");
        world.keys(&mut state, &[Key::Char('1')]).await;
        assert!(state.update(Input::Tick(state.now_ms + 1_000)).is_changed);
    });
}
