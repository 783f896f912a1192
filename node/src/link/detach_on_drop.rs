//! Work that is done where it is awaited, and goes on by itself once nobody awaits it.
//!
//! A command that was begun is carried through, and mostly whoever asked is there until it is
//! answered: a task of its own would be two more hand-overs between threads.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Counts among `tasks` from its making until the work is over.
pub(super) struct DetachOnDrop<T: 'static> {
    /// `None` once it is over.
    work: Option<BoxFuture<'static, T>>,
    tasks: TaskTracker,
    token: TaskTrackerToken,
}

impl<T: 'static> DetachOnDrop<T> {
    pub(super) fn new(tasks: &TaskTracker, work: BoxFuture<'static, T>) -> Self {
        Self { work: Some(work), tasks: tasks.clone(), token: tasks.token() }
    }
}

impl<T: 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = self.work.as_mut().expect("it is not polled once it is over");
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        let token = self.token.clone();
        // Without a runtime nothing goes on.
        if let Some(work) = self.work.take()
            && Handle::try_current().is_ok()
        {
            self.tasks.spawn(async move {
                work.await;
                drop(token);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_that_nobody_awaits_goes_on_and_counts() {
        let (tasks, (begin, begun), (tell, told)) =
            (TaskTracker::new(), oneshot::channel::<()>(), oneshot::channel());
        let work = async move {
            begun.await.unwrap();
            tell.send(7).unwrap();
        };
        let mut awaited = DetachOnDrop::new(&tasks, work.boxed());
        assert!((&mut awaited).now_or_never().is_none() && tasks.len() == 1);
        drop(awaited);
        tasks.close();
        assert!(tasks.wait().now_or_never().is_none());
        begin.send(()).unwrap();
        assert_eq!(told.await, Ok(7));
        tasks.wait().await;

        assert_eq!(DetachOnDrop::new(&tasks, async { 8 }.boxed()).await, 8);
        assert!(tasks.is_empty());
    }
}
