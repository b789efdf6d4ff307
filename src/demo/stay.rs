//! After the verdict, for those who want to try for themselves: the bus stays, and what to type is said.

use std::path::Path;

use super::{
    error::Error,
    load::{TRIGGER1, TRIGGER2},
    setting::VISITORS,
    show::Show,
    view::Tone,
};

/// Says what can be typed in another terminal, and what then happens, until the shutdown.
///
/// # Errors
/// When a child ends by itself, or standard output is closed.
pub(super) async fn stay(show: &mut Show) -> Result<(), Error> {
    let text = instructions(show);
    show.view.print(&text)?;
    show.stays = true;
    show.play_on_until_shutdown().await?;
    show.view.say(Tone::Step, "ending everything")
}

fn instructions(show: &Show) -> String {
    let program = quoted(&std::env::current_exe().unwrap_or_else(|_| "control-bus".into()));
    let folder = quoted(show.setting.folder().path());
    let (controller, pod) = VISITORS;
    let message =
        format!(r#"{{"resource":"{TRIGGER2}","type":"demo.hello","kind":"event","data":{{"hello":"bus"}}}}"#);
    let mut text = format!(
        "\n  The bus stays. What can be typed in another terminal:\n\
         \n  cd {folder}\n\
         \n  # who owns which bucket, and how far it is\
         \n  {program} buckets --config {pod}.toml\n\
         \n  # where a resource's messages go\
         \n  {program} route {TRIGGER1} --config {pod}.toml\n\
         \n  # a pod that sends a message; who receives it is seen here\
         \n  echo '{message}' | {program} run --config {pod}.toml\n\
         \n  # one controller more, which waits for a bucket to become free; Ctrl-C there ends it\
         \n  {program} run --config {controller}.toml\n"
    );
    if let Some((name, pid)) = show.somebody() {
        text.push_str(&format!("\n  # kill {name}: others get its bucket\n  kill -9 {pid}\n"));
    }
    text.push_str(
        "\n  # what the processes log\n  tail -f *.log\n\n  Ctrl-C here ends the bus, its processes and files.\n",
    );
    text
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_the_same_in_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/a-b.1/c")), "/tmp/a-b.1/c");
        assert_eq!(quoted(Path::new("/tmp/it's a")), r"'/tmp/it'\''s a'");
    }
}
